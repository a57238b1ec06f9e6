//! The host's interfaces that a plugin calls by name: each function asks this thread's world.

use crate::log::Level;

/// A line a plugin logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestLine {
    /// Its severity.
    pub level: Level,
    /// Its text.
    pub message: String,
}

/// An event that a plugin emitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestEvent {
    /// Whether it is a warning.
    pub warning: bool,
    /// Its reason.
    pub reason: String,
    /// Its text.
    pub message: String,
}

pub(crate) fn write_log(level: Level, message: &str) {
    super::world::current().borrow_mut().lines.push(TestLine { level, message: message.to_owned() });
}

pub(crate) mod events {
    use super::TestEvent;
    use crate::testing::world::current;

    pub(crate) fn normal(reason: &str, message: &str) {
        push(false, reason, message);
    }

    pub(crate) fn warning(reason: &str, message: &str) {
        push(true, reason, message);
    }

    fn push(warning: bool, reason: &str, message: &str) {
        let event = TestEvent { warning, reason: reason.to_owned(), message: message.to_owned() };
        current().borrow_mut().events.push(event);
    }
}

pub(crate) mod node {
    use crate::testing::world::current;

    pub(crate) fn name() -> String {
        current().borrow().node_name.clone()
    }

    pub(crate) fn allocatable_memory() -> u64 {
        current().borrow().allocatable_memory
    }

    pub(crate) fn label(key: &str) -> Option<String> {
        current().borrow().node_labels.get(key).cloned()
    }
}

pub(crate) mod settings {
    use crate::error::Result;
    use crate::testing::files::Content;
    use crate::testing::world::{Setting, current};

    pub(crate) fn value(name: &str) -> Option<String> {
        match current().borrow().settings.get(name) {
            Some(Setting::Value(text)) => Some(text.clone()),
            _ => None,
        }
    }

    pub(crate) fn texts(name: &str) -> Vec<String> {
        match current().borrow().settings.get(name) {
            Some(Setting::Texts(texts)) => texts.clone(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn secret(name: &str) -> Result<Option<Content>> {
        let world = current();
        world.borrow_mut().called("settings.secret")?;
        let world = world.borrow();
        match world.settings.get(name) {
            Some(Setting::Secret(bytes)) => Ok(Some(Content(bytes.as_slice().into()))),
            _ => Ok(None),
        }
    }
}

pub(crate) mod tmpfs {
    use crate::error::{Error, Result};
    use crate::testing::mount::{DetachedMount, FsOption, TestMount};
    use crate::testing::world::current;

    /// The options that the contract allows.
    const KNOWN: &[&str] = &["size", "nr_inodes", "mode", "uid", "gid", "noswap"];

    pub(crate) fn create(options: &[FsOption]) -> Result<DetachedMount> {
        let world = current();
        world.borrow_mut().called("tmpfs.create")?;
        for option in options {
            let key = &option.key;
            if !KNOWN.contains(&key.as_str()) {
                return Err(Error::invalid_argument(format!(
                    "tmpfs: option {key} is not allowed; {}",
                    KNOWN.join(", ")
                )));
            }
            if world.borrow().unsupported_tmpfs_options.contains(key) {
                return Err(Error::unsupported(format!("tmpfs: this kernel does not know the option {key}")));
            }
        }
        let options = options.iter().map(|option| (option.key.clone(), option.value.clone())).collect();
        Ok(DetachedMount::new(&world, TestMount { options, ..TestMount::tmpfs() }))
    }
}

pub(crate) mod huge_pages {
    use crate::error::{Error, Result};
    use crate::testing::mount::{DetachedMount, FsOption, TestMount};
    use crate::testing::world::current;

    pub(crate) fn create(options: &[FsOption]) -> Result<DetachedMount> {
        let world = current();
        world.borrow_mut().called("huge-pages.create")?;
        let page = options.iter().find(|option| option.key == "pagesize").and_then(|option| option.value.as_deref());
        let page = page.and_then(|page| page.parse().ok()).unwrap_or_default();
        if !world.borrow().huge_pages.contains(&page) {
            return Err(Error::unsupported(format!("hugetlbfs: no pages of {page} bytes")));
        }
        let options = options.iter().map(|option| (option.key.clone(), option.value.clone())).collect();
        Ok(DetachedMount::new(&world, TestMount { options, ..TestMount::of_type("hugetlbfs") }))
    }
}

pub(crate) mod id_maps {
    use crate::error::Result;
    use crate::testing::mount::DetachedMount;
    use crate::testing::world::current;

    pub(crate) fn map_group(mount: &DetachedMount, group: u32) -> Result<()> {
        current().borrow_mut().called("id-maps.map-group")?;
        mount.map_group(group);
        Ok(())
    }
}

pub(crate) mod quotas {
    use crate::error::Result;
    use crate::testing::target::MountTarget;

    pub(crate) fn make_limited_folder(target: &MountTarget, mode: u32, group: Option<u32>, limit: u64) -> Result<()> {
        target.make_limited_folder(mode, group, limit)
    }

    pub(crate) fn watch_size(target: &MountTarget, limit: u64) {
        target.watch_size(limit);
    }
}

pub(crate) mod host_paths {
    use crate::error::{Error, Result};
    use crate::testing::mount::MountSource;
    use crate::testing::tree::{Node, parent_of};
    use crate::testing::world::{World, current};

    pub(crate) fn open(path: &str) -> Result<MountSource> {
        let world = current();
        world.borrow_mut().called("open")?;
        check(path)?;
        let (real, node) = world.borrow().tree.resolve(path)?;
        granted(&world.borrow(), &real)?;
        Ok(MountSource::new(&world, real, node))
    }

    pub(crate) fn create_directory(path: &str) -> Result<MountSource> {
        create("create-directory", path, Node::Directory)
    }

    pub(crate) fn create_file(path: &str) -> Result<MountSource> {
        let source = create("create-file", path, Node::File)?;
        if source.kind() == Node::Directory.word() {
            return Err(Error::other("EISDIR", format!("create {path}: Is a directory")));
        }
        Ok(source)
    }

    fn create(call: &'static str, path: &str, node: Node) -> Result<MountSource> {
        let world = current();
        world.borrow_mut().called(call)?;
        check(path)?;
        let found = world.borrow().tree.resolve(path);
        let (real, node) = match found {
            Ok((real, found)) => {
                granted(&world.borrow(), &real)?;
                if node == Node::Directory && found != Node::Directory {
                    return Err(Error::other("ENOTDIR", format!("create {path}: Not a directory")));
                }
                (real, found)
            }
            Err(Error::NotFound(_)) => {
                let mut parent = parent_of(path);
                if node == Node::Directory {
                    while parent != "/" && matches!(world.borrow().tree.resolve(parent), Err(Error::NotFound(_))) {
                        parent = parent_of(parent);
                    }
                }
                let (real_parent, kind) = world.borrow().tree.resolve(parent)?;
                if kind != Node::Directory {
                    return Err(Error::other("ENOTDIR", format!("create {path}: Not a directory")));
                }
                granted(&world.borrow(), &real_parent)?;
                let rest = path.get(parent.len()..).unwrap_or_default().trim_matches('/');
                let real = format!("{}/{rest}", real_parent.trim_end_matches('/'));
                world.borrow_mut().tree.put(&real, node.clone());
                (real, node)
            }
            Err(error) => return Err(error),
        };
        Ok(MountSource::new(&world, real, node))
    }

    fn check(path: &str) -> Result<()> {
        if path.starts_with('/') && !path.split('/').any(|name| name == "..") && !path.contains('\0') {
            return Ok(());
        }
        Err(Error::invalid_argument(format!("{path:?} must be an absolute path without `..`")))
    }

    fn granted(world: &World, real: &str) -> Result<()> {
        let within = |root: &String| {
            let root = root.trim_end_matches('/');
            real.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if world.grants.iter().any(within) {
            return Ok(());
        }
        Err(Error::permission_denied(format!("{real} lies outside the folders granted to this plugin")))
    }
}
