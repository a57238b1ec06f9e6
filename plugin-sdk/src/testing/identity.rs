//! A plugin's descriptions of itself and of a volume.

use std::cell::RefCell;

use crate::settings::SettingKind;

/// A plugin's description of itself.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// use volhost_plugin_sdk::testing::{TestDescription, TestHost, TestIdentity, TestMeasurement};
/// # struct Mine;
/// # impl VolumePlugin for Mine {
/// #     fn describe(about: &mut Description) { about.name("example.com/mine").version("1.2.0").serves("mine"); }
/// #     fn identify(volume: &Volume, id: &mut Identity) -> Result<()> { id.name(&volume.spec_name()); Ok(()) }
/// #     fn publish(_: &Volume, _: &Pod, _: &MountTarget) -> Result<()> { Ok(()) }
/// #     fn unpublish(_: &MountTarget) -> Result<()> { Ok(()) }
/// # }
/// # impl Stats for Mine {
/// #     fn measure(_: &str, _: Option<&MountTarget>, into: &mut Measurement) -> Result<()> { into.capacity(7); Ok(()) }
/// # }
///
/// let host = TestHost::new();
/// let about: TestDescription = host.describe::<Mine>();
/// assert_eq!((about.version.as_str(), about.serves), ("1.2.0", vec!["mine".to_owned()]));
/// let identity: TestIdentity = host.identity::<Mine>(&Volume::builder("mine").named("data"))?;
/// assert_eq!((identity.name.as_deref(), identity.attachable), (Some("data"), None));
/// let measured: TestMeasurement = host.measure::<Mine>("data", None)?;
/// assert_eq!((measured.capacity, measured.abnormal), (Some(7), None));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestDescription {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The sources that it serves, in the order of its calls.
    pub serves: Vec<String>,
    /// It passes mount options on.
    pub accepts_mount_options: bool,
    /// Its content follows its source.
    pub follows_its_source: bool,
    /// Pods can only read its volumes' content.
    pub read_only: bool,
    /// The names of its settings, in the order of its calls.
    pub settings: Vec<String>,
    /// The names of those that it requires.
    pub required_settings: Vec<String>,
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

    pub(crate) fn read_only(&self) {
        self.0.borrow_mut().read_only = true;
    }

    pub(crate) fn follows_its_source(&self) {
        self.0.borrow_mut().follows_its_source = true;
    }

    pub(crate) fn setting(&self, name: &str, _kind: SettingKind, _help: &str) {
        self.0.borrow_mut().settings.push(name.to_owned());
    }

    pub(crate) fn required_setting(&self, name: &str, kind: SettingKind, help: &str) {
        self.setting(name, kind, help);
        self.0.borrow_mut().required_settings.push(name.to_owned());
    }

    pub(crate) fn into_inner(self) -> TestDescription {
        self.0.into_inner()
    }
}

/// A plugin's description of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestIdentity {
    /// Its name, if it has one of its own.
    pub name: Option<String>,
    /// Whether it must be attached, if the plugin set that.
    pub attachable: Option<bool>,
    /// Whether it is staged first, if the plugin set that.
    pub stageable: Option<bool>,
    /// The pod's other volumes that it is made of, in the order of its calls.
    pub needs: Vec<String>,
    /// Whether it can be mounted with an SELinux label.
    pub selinux_mount: bool,
    /// How many volumes of the plugin may be attached at once, if the plugin set that.
    pub attach_limit: Option<u32>,
    /// The limits for volumes whose names have a prefix.
    pub attach_limit_of: Option<(String, u32)>,
    /// It is published again from time to time.
    pub refreshed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Identity(RefCell<TestIdentity>);

impl Identity {
    pub(crate) fn name(&self, name: &str) {
        self.0.borrow_mut().name = Some(name.to_owned());
    }

    pub(crate) fn attachable(&self, attachable: bool) {
        self.0.borrow_mut().attachable = Some(attachable);
    }

    pub(crate) fn stageable(&self, stageable: bool) {
        self.0.borrow_mut().stageable = Some(stageable);
    }

    pub(crate) fn needs_volume(&self, name: &str) {
        self.0.borrow_mut().needs.push(name.to_owned());
    }

    pub(crate) fn selinux_mount(&self, selinux_mount: bool) {
        self.0.borrow_mut().selinux_mount = selinux_mount;
    }

    pub(crate) fn attach_limit(&self, limit: u32) {
        self.0.borrow_mut().attach_limit = Some(limit);
    }

    pub(crate) fn attach_limit_of(&self, names: &str, limit: u32) {
        self.0.borrow_mut().attach_limit_of = Some((names.to_owned(), limit));
    }

    pub(crate) fn refreshed(&self) {
        self.0.borrow_mut().refreshed = true;
    }

    pub(crate) fn into_inner(self) -> TestIdentity {
        self.0.into_inner()
    }
}

/// A plugin's measurement of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestMeasurement {
    /// Bytes in all.
    pub capacity: Option<u64>,
    /// Bytes that may still be written.
    pub available: Option<u64>,
    /// Bytes in use.
    pub used: Option<u64>,
    /// Files and folders in all.
    pub inodes: Option<u64>,
    /// Files and folders that may still be made.
    pub inodes_free: Option<u64>,
    /// Files and folders in use.
    pub inodes_used: Option<u64>,
    /// Why the volume is not well.
    pub abnormal: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Measurement(RefCell<TestMeasurement>);

impl Measurement {
    pub(crate) fn capacity(&self, bytes: u64) {
        self.0.borrow_mut().capacity = Some(bytes);
    }

    pub(crate) fn available(&self, bytes: u64) {
        self.0.borrow_mut().available = Some(bytes);
    }

    pub(crate) fn used(&self, bytes: u64) {
        self.0.borrow_mut().used = Some(bytes);
    }

    pub(crate) fn inodes(&self, count: u64) {
        self.0.borrow_mut().inodes = Some(count);
    }

    pub(crate) fn inodes_free(&self, count: u64) {
        self.0.borrow_mut().inodes_free = Some(count);
    }

    pub(crate) fn inodes_used(&self, count: u64) {
        self.0.borrow_mut().inodes_used = Some(count);
    }

    pub(crate) fn abnormal(&self, reason: &str) {
        self.0.borrow_mut().abnormal = Some(reason.to_owned());
    }

    pub(crate) fn into_inner(self) -> TestMeasurement {
        self.0.into_inner()
    }
}
