//! Payloads of the double.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::target::MountTarget;
use crate::error::{Error, Result};

/// The limits of a payload: the bytes of all files, and their number.
const MOST_BYTES: usize = 16 << 20;
const MOST_FILES: usize = 20_000;

/// A file of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestFile {
    /// Its content.
    pub bytes: Vec<u8>,
    /// Its mode.
    pub mode: u32,
    /// Its own owner, if it is not the payload's.
    pub owner: Option<u32>,
}

impl TestFile {
    /// Its content, as text.
    ///
    /// # Panics
    /// If it is not text.
    #[must_use]
    #[expect(clippy::expect_used, reason = "documented under Panics")]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("the file's content is text")
    }
}

/// The published files of a volume.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// use volhost_plugin_sdk::files::Payload;
/// use volhost_plugin_sdk::testing::{TestFile, TestHost, TestPayload};
///
/// let host = TestHost::new();
/// let target = host.target("data");
/// target.handle().make_folder(0o755, None)?;
/// let payload = Payload::new();
/// payload.add("a/b", b"text", 0o640)?;
/// payload.file_owner("a/b", 1000)?;
/// payload.publish(&target.handle())?;
///
/// let files: TestPayload = target.payload().expect("files are published");
/// let file: &TestFile = &files.files["a/b"];
/// assert_eq!((file.text(), file.mode, file.owner), ("text", 0o640, Some(1000)));
/// assert_eq!(files.paths(), ["a/b"]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestPayload {
    /// By path.
    pub files: BTreeMap<String, TestFile>,
    /// The user that owns them.
    pub owner: Option<u32>,
    /// Their group.
    pub group: Option<u32>,
    /// The mode of folders made for them.
    pub folder_mode: u32,
}

impl TestPayload {
    /// The paths, sorted.
    #[must_use]
    pub fn paths(&self) -> Vec<&str> {
        self.files.keys().map(String::as_str).collect()
    }
}

/// The content of a file.
#[derive(Debug, Clone)]
pub(crate) struct Content(pub(crate) Rc<[u8]>);

/// Files that are collected.
#[derive(Debug)]
pub(crate) struct Payload(RefCell<TestPayload>);

impl Payload {
    pub(crate) fn new() -> Self {
        Self(RefCell::new(TestPayload { files: BTreeMap::new(), owner: None, group: None, folder_mode: 0o755 }))
    }

    pub(crate) fn add(&self, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
        let mut payload = self.0.borrow_mut();
        if mode > 0o777 {
            return Err(Error::invalid_argument(format!("file {path}: {mode:o} is not a mode of a file")));
        }
        let others: usize =
            payload.files.iter().filter(|(other, _)| *other != path).map(|(_, file)| file.bytes.len()).sum();
        if others + bytes.len() > MOST_BYTES {
            return Err(Error::invalid_argument(format!(
                "file {path}: the volume's files are more than {} MiB together",
                MOST_BYTES >> 20
            )));
        }
        if payload.files.len() >= MOST_FILES && !payload.files.contains_key(path) {
            return Err(Error::invalid_argument(format!("the volume has more than {MOST_FILES} files")));
        }
        payload.files.insert(path.to_owned(), TestFile { bytes: bytes.to_owned(), mode, owner: None });
        Ok(())
    }

    pub(crate) fn add_content(&self, path: &str, what: &Content, mode: u32) -> Result<()> {
        self.add(path, &what.0, mode)
    }

    pub(crate) fn file_owner(&self, path: &str, user: u32) -> Result<()> {
        match self.0.borrow_mut().files.get_mut(path) {
            Some(file) => {
                file.owner = Some(user);
                Ok(())
            }
            None => Err(Error::not_found(format!("file {path} was not added"))),
        }
    }

    pub(crate) fn owned_by(&self, user: Option<u32>, group: Option<u32>) {
        let mut payload = self.0.borrow_mut();
        (payload.owner, payload.group) = (user, group);
    }

    pub(crate) fn folder_mode(&self, mode: u32) {
        self.0.borrow_mut().folder_mode = mode;
    }

    pub(crate) fn publish(&self, target: &MountTarget) -> Result<()> {
        let payload = self.0.borrow();
        for path in payload.files.keys() {
            let plain = |name: &str| !matches!(name, "" | "." | "..") && name.len() <= 255 && !name.contains('\0');
            if path.starts_with("..") || path.len() > 4096 || !path.split('/').all(plain) {
                return Err(Error::invalid_argument(format!("{path:?} is not a path of a file in a volume")));
            }
            let below = format!("{path}/");
            if let Some(other) = payload.files.keys().find(|other| other.starts_with(&below)) {
                return Err(Error::invalid_argument(format!("{path} is a file, and {other} lies below it")));
            }
        }
        target.publish(&payload)
    }
}
