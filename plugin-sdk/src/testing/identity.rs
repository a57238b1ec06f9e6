//! What a plugin said of itself and of a volume.

use std::cell::RefCell;

/// What a plugin said of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestDescription {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The sources it serves, in the order it said them.
    pub serves: Vec<String>,
    /// It passes mount options on.
    pub accepts_mount_options: bool,
    /// Its content follows its source.
    pub follows_its_source: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Description(RefCell<TestDescription>);

impl Description {
    pub(crate) fn name(&self, name: &str) {
        self.0.borrow_mut().name = name.to_owned();
    }

    pub(crate) fn version(&self, version: &str) {
        self.0.borrow_mut().version = version.to_owned();
    }

    pub(crate) fn serves(&self, source: &str) {
        self.0.borrow_mut().serves.push(source.to_owned());
    }

    pub(crate) fn accepts_mount_options(&self) {
        self.0.borrow_mut().accepts_mount_options = true;
    }

    pub(crate) fn follows_its_source(&self) {
        self.0.borrow_mut().follows_its_source = true;
    }

    pub(crate) fn into_inner(self) -> TestDescription {
        self.0.into_inner()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Identity(RefCell<Option<String>>);

impl Identity {
    pub(crate) fn name(&self, name: &str) {
        *self.0.borrow_mut() = Some(name.to_owned());
    }

    pub(crate) fn into_inner(self) -> Option<String> {
        self.0.into_inner()
    }
}
