//! Targets of the double, from the plugin's side and from the test's.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::files::TestPayload;
use super::mount::{DetachedMount, MountSource, TestMount};
use super::pod::Pod;
use super::tree::Node;
use super::world::Shared;
use crate::error::{Error, Result};
use crate::mounts::TargetState;

/// A plain folder at a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestFolder {
    /// Its mode, without the type.
    pub mode: u32,
    /// Its group, if one was set.
    pub group: Option<u32>,
    /// The files in it.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The files that a payload published in it.
    pub payload: Option<TestPayload>,
    /// The folders made inside, with their modes.
    pub inner_folders: BTreeMap<String, u32>,
    /// Its size limit, in bytes.
    pub limit: Option<u64>,
}

/// The content of a target.
#[derive(Debug, Clone)]
pub(crate) enum TargetContent {
    Folder(TestFolder),
    /// An empty file: the mount point of a mount whose root is one.
    File,
    /// A mount, and the mount point it hides.
    Mount(TestMount, Box<TargetContent>),
}

/// The handle's own data.
#[derive(Debug, Clone)]
pub(crate) struct MountTarget {
    world: Shared,
    pod_uid: String,
    spec_name: String,
}

impl MountTarget {
    pub(crate) fn new(world: &Shared, pod_uid: &str, spec_name: &str) -> Self {
        Self { world: Rc::clone(world), pod_uid: pod_uid.to_owned(), spec_name: spec_name.to_owned() }
    }

    fn key(&self) -> (String, String) {
        (self.pod_uid.clone(), self.spec_name.clone())
    }

    pub(super) fn content(&self) -> Option<TargetContent> {
        self.world.borrow().targets.get(&self.key()).cloned()
    }

    pub(super) fn put(&self, content: Option<TargetContent>) {
        let mut world = self.world.borrow_mut();
        match content {
            Some(content) => world.targets.insert(self.key(), content),
            None => world.targets.remove(&self.key()),
        };
    }

    fn called(&self, call: &'static str) -> Result<()> {
        self.world.borrow_mut().called(call)
    }

    pub(crate) fn pod_uid(&self) -> String {
        self.pod_uid.clone()
    }

    pub(crate) fn spec_name(&self) -> String {
        self.spec_name.clone()
    }

    pub(crate) fn state(&self) -> Result<TargetState> {
        self.called("state")?;
        Ok(match self.content() {
            None => TargetState::Absent,
            Some(TargetContent::Folder(_) | TargetContent::File) => TargetState::Plain,
            Some(TargetContent::Mount(..)) => TargetState::Mounted,
        })
    }

    pub(crate) fn mounted_type(&self) -> Result<Option<String>> {
        self.called("mounted-type")?;
        Ok(match self.content() {
            Some(TargetContent::Mount(mount, _)) => Some(mount.fs_type),
            _ => None,
        })
    }

    pub(crate) fn mounted_options(&self) -> Result<Vec<String>> {
        self.called("mounted-options")?;
        let mount = self.mount_here();
        let options = mount.iter().flat_map(|mount| &mount.options);
        Ok(options
            .map(|(key, value)| match value {
                // As the kernel shows it.
                Some(bytes) if key == "pagesize" => {
                    format!("{key}={}M", bytes.parse::<u64>().unwrap_or_default() >> 20)
                }
                Some(value) => format!("{key}={value}"),
                None => key.clone(),
            })
            .collect())
    }

    /// The mount at the target, if there is one.
    pub(crate) fn mount_here(&self) -> Option<TestMount> {
        match self.content() {
            Some(TargetContent::Mount(mount, _)) => Some(mount),
            _ => None,
        }
    }

    pub(crate) fn staging_mount(&self) -> Result<Option<MountSource>> {
        self.called("staging-mount")?;
        let node = Self::new(&self.world, "", &self.spec_name);
        Ok(node.mount_here().map(|mount| MountSource::of_mount(&self.world, mount)))
    }

    pub(crate) fn apply_fs_group(&self, pod: &Pod, _read_only: bool) -> Result<()> {
        // As the contract says: some files may have been changed, whatever the failure.
        self.called("apply-fs-group").map_err(|error| Error::uncertain(error.message()))?;
        if self.content().is_none() {
            return Err(Error::uncertain(format!("apply-fs-group {}: not mounted", self.spec_name)));
        }
        if let Some(group) = pod.fs_group() {
            self.world.borrow_mut().groups.insert(self.key(), group);
        }
        Ok(())
    }

    pub(crate) fn group(&self) -> Result<u32> {
        self.called("group")?;
        Ok(self.world.borrow().groups.get(&self.key()).copied().unwrap_or(0))
    }

    pub(crate) fn other_pods(&self) -> Result<u32> {
        self.called("other-pods")?;
        let world = self.world.borrow();
        let same = world.targets.iter().filter(|((pod, name), content)| {
            *name == self.spec_name
                && !pod.is_empty()
                && *pod != self.pod_uid
                && matches!(content, TargetContent::Mount(..))
        });
        Ok(u32::try_from(same.count()).unwrap_or(u32::MAX))
    }

    pub(crate) fn attach(&self, detached: DetachedMount) -> Result<()> {
        self.called("attach")?;
        let mount = detached.mount();
        let point = match self.content() {
            Some(TargetContent::Mount(..)) => {
                return Err(self.conflict("attach", "the target is a mount already"));
            }
            Some(TargetContent::Folder(_)) if !mount.root_is_folder => {
                return Err(self.conflict("attach", "the target is a folder, and the mount's root is not"));
            }
            Some(TargetContent::File) if mount.root_is_folder => {
                return Err(self.conflict("attach", "the target is a file, and the mount's root is a folder"));
            }
            Some(point) => point,
            None if mount.root_is_folder => TargetContent::Folder(TestFolder { mode: 0o750, ..TestFolder::default() }),
            None => TargetContent::File,
        };
        self.put(Some(TargetContent::Mount(mount, Box::new(point))));
        Ok(())
    }

    pub(crate) fn make_folder(&self, mode: u32, group: Option<u32>) -> Result<()> {
        self.called("make-folder")?;
        if mode > 0o7777 {
            return Err(Error::invalid_argument(format!("make-folder: {mode:o} is not a mode")));
        }
        let before = match self.content() {
            None => TestFolder::default(),
            Some(TargetContent::Folder(folder)) => folder,
            Some(TargetContent::File) => return Err(self.conflict("make-folder", "the target is a file")),
            Some(TargetContent::Mount(..)) => {
                return Err(self.conflict("make-folder", "the target is a mount"));
            }
        };
        self.put(Some(TargetContent::Folder(TestFolder { mode, group: group.or(before.group), ..before })));
        Ok(())
    }

    pub(crate) fn make_limited_folder(&self, mode: u32, group: Option<u32>, limit: u64) -> Result<()> {
        self.called("make-limited-folder")?;
        if !self.world.borrow().folder_quotas {
            return Err(Error::unsupported("make-limited-folder: the file system has no quotas"));
        }
        if self.folder().is_some_and(|folder| folder.limit.is_none()) {
            return Err(self.conflict("make-limited-folder", "the target is a folder without a quota"));
        }
        self.make_folder(mode, group)?;
        let folder = self.folder().map(|folder| TestFolder { limit: Some(limit), ..folder });
        self.put(folder.map(TargetContent::Folder));
        Ok(())
    }

    pub(crate) fn watch_size(&self, limit: u64) {
        self.world.borrow_mut().watched_sizes.insert(self.key(), limit);
    }

    fn folder(&self) -> Option<TestFolder> {
        match self.content() {
            Some(TargetContent::Folder(folder)) => Some(folder),
            _ => None,
        }
    }

    pub(crate) fn make_inner_folder(&self, path: &str, mode: u32) -> Result<()> {
        self.called("make-inner-folder")?;
        let mut content = self.content();
        match &mut content {
            Some(TargetContent::Folder(TestFolder { inner_folders, .. }))
            | Some(TargetContent::Mount(TestMount { inner_folders, .. }, _)) => {
                inner_folders.entry(path.to_owned()).or_insert(mode);
            }
            Some(TargetContent::File) => return Err(self.conflict("make-inner-folder", "the target is a file")),
            None => {
                return Err(Error::not_found(format!("make-inner-folder {}: the target is absent", self.spec_name)));
            }
        }
        self.put(content);
        Ok(())
    }

    pub(crate) fn publish(&self, payload: &TestPayload) -> Result<()> {
        self.called("publish")?;
        let mut content = self.content();
        let place = match &mut content {
            Some(TargetContent::Folder(folder)) => &mut folder.payload,
            Some(TargetContent::Mount(mount, _)) => &mut mount.payload,
            Some(TargetContent::File) => return Err(self.conflict("publish", "the target is a file")),
            None => return Err(Error::not_found(format!("publish {}: the target is absent", self.spec_name))),
        };
        *place = Some(payload.clone());
        self.put(content);
        Ok(())
    }

    pub(crate) fn detach(&self) -> Result<()> {
        self.called("detach")?;
        let left = match self.content() {
            Some(TargetContent::Mount(_, point)) => Some(*point),
            other => other,
        };
        match left {
            Some(TargetContent::Folder(folder)) if !folder.files.is_empty() || folder.payload.is_some() => {
                self.put(Some(TargetContent::Folder(folder)));
                Err(self.conflict("detach", "the folder is not empty"))
            }
            _ => {
                self.put(None);
                Ok(())
            }
        }
    }

    pub(crate) fn delete_folder(&self) -> Result<()> {
        self.called("delete-folder")?;
        match self.content() {
            Some(TargetContent::Mount(..)) => {
                Err(Error::busy(format!("delete-folder {}: the target is a mount", self.spec_name)))
            }
            Some(TargetContent::File) => Err(self.conflict("delete-folder", "the target is a file")),
            Some(TargetContent::Folder(_)) | None => {
                self.put(None);
                Ok(())
            }
        }
    }

    pub(crate) fn private_folder(&self) -> Result<MountSource> {
        self.called("private-folder")?;
        if self.pod_uid.is_empty() {
            return Err(Error::unsupported("a staging target has no private folder"));
        }
        self.world.borrow_mut().private_folders.insert(self.key());
        Ok(MountSource::new(&self.world, format!("private:{}", self.spec_name), Node::Directory))
    }

    fn conflict(&self, step: &str, why: &str) -> Error {
        Error::conflict(format!("{step} {}: {why}", self.spec_name))
    }
}

/// A target from the test's side: its content, and ways to prepare it.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// use volhost_plugin_sdk::testing::{TestFolder, TestHost, TestMount, TestTarget};
///
/// let host = TestHost::new();
/// host.folder_quotas();
/// let target: TestTarget = host.target("data");
/// // The plugin may find a file, a foreign mount, or a folder of an earlier run.
/// target.put_file();
/// target.put_mount(TestMount::tmpfs());
/// target.put_folder(TestFolder { mode: 0o700, ..TestFolder::default() });
/// target.write("left", b"behind");
/// assert!(target.handle().detach().is_err(), "data is never removed");
/// target.handle().delete_folder()?;
///
/// // The folder that the plugin made.
/// quotas::make_limited_folder(&target.handle(), 0o777, Some(2000), 1 << 20)?;
/// quotas::watch_size(&target.handle(), 1 << 20);
/// target.handle().make_inner_folder("a", 0o755)?;
/// let folder: TestFolder = target.folder().expect("a plain folder");
/// assert_eq!((folder.mode, folder.group, folder.limit), (0o777, Some(2000), Some(1 << 20)));
/// assert!(folder.inner_folders.contains_key("a"));
/// assert_eq!(target.watched_size(), Some(1 << 20));
/// assert!(!target.has_private_folder());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct TestTarget(MountTarget);

impl TestTarget {
    pub(crate) fn new(target: MountTarget) -> Self {
        Self(target)
    }

    /// The handle a plugin gets.
    #[must_use]
    pub fn handle(&self) -> crate::mounts::MountTarget<'_> {
        crate::mounts::MountTarget::new(&self.0)
    }

    /// Whether the target is absent.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.0.content().is_none()
    }

    /// The mount that is there.
    #[must_use]
    pub fn mount(&self) -> Option<TestMount> {
        self.0.mount_here()
    }

    /// The group that what is there was given to.
    #[must_use]
    pub fn group(&self) -> Option<u32> {
        self.0.world.borrow().groups.get(&self.0.key()).copied()
    }

    /// Whether the plugin made a private folder for it.
    #[must_use]
    pub fn has_private_folder(&self) -> bool {
        self.0.world.borrow().private_folders.contains(&self.0.key())
    }

    /// The plain folder that is there.
    #[must_use]
    pub fn folder(&self) -> Option<TestFolder> {
        self.0.folder()
    }

    /// The size that the host was asked to watch, in bytes.
    #[must_use]
    pub fn watched_size(&self) -> Option<u64> {
        self.0.world.borrow().watched_sizes.get(&self.0.key()).copied()
    }

    /// The files that a payload shows there, in a plain folder or a mount.
    #[must_use]
    pub fn payload(&self) -> Option<TestPayload> {
        match self.0.content() {
            Some(TargetContent::Folder(folder)) => folder.payload,
            Some(TargetContent::Mount(mount, _)) => mount.payload,
            _ => None,
        }
    }

    /// Puts a plain folder there, in place of what was there.
    pub fn put_folder(&self, folder: TestFolder) {
        self.0.put(Some(TargetContent::Folder(folder)));
    }

    /// Puts a plain, empty file there, in place of what was there.
    pub fn put_file(&self) {
        self.0.put(Some(TargetContent::File));
    }

    /// Puts a mount there, in place of what was there.
    pub fn put_mount(&self, mount: TestMount) {
        let point =
            if mount.root_is_folder { TargetContent::Folder(TestFolder::default()) } else { TargetContent::File };
        self.0.put(Some(TargetContent::Mount(mount, Box::new(point))));
    }

    /// Writes a file into the plain folder that is there.
    ///
    /// # Panics
    /// If no plain folder is there.
    pub fn write(&self, name: &str, content: &[u8]) {
        let mut folder = self.folder();
        assert!(folder.is_some(), "no plain folder to write into at {}", self.0.spec_name);
        if let Some(folder) = &mut folder {
            folder.files.insert(name.to_owned(), content.to_owned());
        }
        self.0.put(folder.map(TargetContent::Folder));
    }
}
