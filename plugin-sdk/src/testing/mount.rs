//! Sources and mounts of the double.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::files::TestPayload;
use super::tree::Node;
use super::world::Shared;
use crate::error::{Error, Result};
use crate::mounts::PER_MOUNT_OPTIONS;

/// A mount of the double, as its user would see it.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// use volhost_plugin_sdk::testing::{TestHost, TestMount};
///
/// let host = TestHost::new();
/// let mount = Tmpfs::new().noswap().create()?;
/// mount.set_options(&["ro"], false)?;
/// host.target("data").handle().attach(mount)?;
/// let mount: TestMount = host.target("data").mount().expect("attached");
/// assert!(mount.is_read_only() && mount.has_option("noswap") && mount.root_is_folder && !mount.recursive);
/// assert!(mount.flags.contains("ro") && mount.recursive_flags.is_empty() && mount.inner_folders.is_empty());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestMount {
    /// `tmpfs`, or `host` for a bind of a host's path.
    pub fs_type: String,
    /// The file system's own options, in the order given.
    pub options: Vec<(String, Option<String>)>,
    /// The real path that is bound.
    pub source: Option<String>,
    /// The layers of an overlay: the lowers, the uppermost first, a volume of the pod as
    /// `volume:NAME`.
    pub lowers: Vec<String>,
    /// The top of an overlay: a path of the host, `private:NAME`, or `tmpfs`.
    pub top: Option<String>,
    /// The mounts below the source came too.
    pub recursive: bool,
    /// Per-mount options.
    pub flags: BTreeSet<String>,
    /// Those that were also set on the mounts below.
    pub recursive_flags: BTreeSet<String>,
    /// The mount's root is a folder.
    pub root_is_folder: bool,
    /// The files that a payload published in it.
    pub payload: Option<TestPayload>,
    /// The folders made inside, with their modes.
    pub inner_folders: BTreeMap<String, u32>,
    /// The group that its root's group is shown as, if it is another.
    pub mapped_group: Option<u32>,
}

impl TestMount {
    /// A writable tmpfs without an option.
    #[must_use]
    pub fn tmpfs() -> Self {
        Self::of_type("tmpfs")
    }

    /// A writable mount of this file-system type, whose root is a folder.
    #[must_use]
    pub fn of_type(fs_type: &str) -> Self {
        Self {
            fs_type: fs_type.to_owned(),
            options: Vec::new(),
            source: None,
            lowers: Vec::new(),
            top: None,
            recursive: false,
            flags: BTreeSet::new(),
            recursive_flags: BTreeSet::new(),
            root_is_folder: true,
            payload: None,
            inner_folders: BTreeMap::new(),
            mapped_group: None,
        }
    }

    /// The value of one of the file system's options; none if it is not set or a flag.
    #[must_use]
    pub fn option(&self, key: &str) -> Option<&str> {
        self.options.iter().find(|(name, _)| name == key).and_then(|(_, value)| value.as_deref())
    }

    /// Whether an option is set: one of the file system's, with or without a value, or one of this
    /// mount's own, as `ro` or `nosuid`.
    #[must_use]
    pub fn has_option(&self, key: &str) -> bool {
        self.flags.contains(key) || self.options.iter().any(|(name, _)| name == key)
    }

    /// Whether it can't be written through, here and in the mounts that came with it.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.flags.contains("ro") && (!self.recursive || self.recursive_flags.contains("ro"))
    }
}

/// A file system's option, as the contract has it.
#[derive(Debug, Clone)]
pub(crate) struct FsOption {
    pub(crate) key: String,
    pub(crate) value: Option<String>,
}

/// Something that can be bound.
#[derive(Debug)]
pub(crate) struct MountSource {
    world: Shared,
    path: String,
    node: Node,
    /// The mount that it is the root of; none for a path of the host.
    mount: Option<TestMount>,
    read_only: bool,
}

impl MountSource {
    pub(crate) fn new(world: &Shared, path: String, node: Node) -> Self {
        Self { world: Rc::clone(world), path, node, mount: None, read_only: false }
    }

    /// Another volume of the pod.
    pub(crate) fn of_pod_volume(world: &Shared, name: &str) -> Self {
        Self { read_only: true, ..Self::new(world, format!("volume:{name}"), Node::Directory) }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The root of a mount.
    pub(crate) fn of_mount(world: &Shared, mount: TestMount) -> Self {
        let path = mount.source.clone().unwrap_or_default();
        let node = if mount.root_is_folder { Node::Directory } else { Node::File };
        Self { world: Rc::clone(world), path, node, mount: Some(mount), read_only: false }
    }

    /// Its name as a layer.
    pub(crate) fn layer(&self) -> String {
        match &self.mount {
            Some(mount) if self.path.is_empty() => mount.fs_type.clone(),
            _ => self.path.clone(),
        }
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.node == Node::Directory
    }

    pub(crate) fn kind(&self) -> String {
        self.node.word().to_owned()
    }

    pub(crate) fn bind(&self, recursive: bool) -> Result<DetachedMount> {
        self.world.borrow_mut().called("bind")?;
        if let Some(mount) = &self.mount {
            return Ok(DetachedMount::new(&self.world, TestMount { recursive, ..mount.clone() }));
        }
        let flags = self.read_only.then(|| "ro".to_owned()).into_iter().collect();
        let mount = TestMount {
            flags,
            source: Some(self.path.clone()),
            recursive,
            root_is_folder: self.node == Node::Directory,
            ..TestMount::of_type("host")
        };
        Ok(DetachedMount::new(&self.world, mount))
    }
}

/// A detached mount; the world counts them.
#[derive(Debug)]
pub(crate) struct DetachedMount {
    world: Shared,
    mount: std::cell::RefCell<TestMount>,
}

impl DetachedMount {
    pub(crate) fn new(world: &Shared, mount: TestMount) -> Self {
        world.borrow_mut().detached += 1;
        Self { world: Rc::clone(world), mount: mount.into() }
    }

    pub(crate) fn set_options(&self, options: &[String], recursive: bool) -> Result<()> {
        self.world.borrow_mut().called("set-options")?;
        if let Some(unknown) = options.iter().find(|option| !PER_MOUNT_OPTIONS.contains(&option.as_str())) {
            return Err(Error::invalid_argument(format!(
                "{unknown:?} is not a per-mount option; known: {}",
                PER_MOUNT_OPTIONS.join(", ")
            )));
        }
        let mut mount = self.mount.borrow_mut();
        mount.flags.extend(options.iter().cloned());
        if recursive {
            mount.recursive_flags.extend(options.iter().cloned());
        }
        Ok(())
    }

    pub(crate) fn source(&self) -> Result<MountSource> {
        self.world.borrow_mut().called("source")?;
        Ok(MountSource::of_mount(&self.world, self.mount()))
    }

    pub(crate) fn map_group(&self, group: u32) {
        self.mount.borrow_mut().mapped_group = Some(group);
    }

    /// The mount as it would be once attached.
    pub(crate) fn mount(&self) -> TestMount {
        self.mount.borrow().clone()
    }
}

impl Drop for DetachedMount {
    fn drop(&mut self) {
        self.world.borrow_mut().detached -= 1;
    }
}
