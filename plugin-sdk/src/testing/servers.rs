//! FUSE servers of the double: nothing runs; the values of the slots are in the mount.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::files::Content;
use super::host::TestHost;
use super::mount::{DetachedMount, MountSource, TestMount};
use super::world::{Shared, current};
use crate::error::{Error, Result};

/// The characters that the contract allows in a text beside letters and digits.
const PLAIN: &str = "._-/:@+%~[]";

impl TestHost {
    /// Grants a FUSE server with these slots. A mount that it serves has them as options: a text as
    /// it is, a secret as `secret`, a folder by its path.
    pub fn fuse_server(&self, name: &str, slots: &[&str]) -> &Self {
        let slots: BTreeSet<String> = slots.iter().map(|slot| (*slot).to_owned()).collect();
        self.change(|world| {
            world.fuse_servers.insert(name.to_owned(), slots);
        })
    }
}

/// A FUSE server's handle.
#[derive(Debug)]
pub(crate) struct FuseServer {
    world: Shared,
    name: String,
    slots: RefCell<BTreeMap<String, String>>,
}

impl FuseServer {
    fn fill(&self, slot: &str, value: String) -> Result<()> {
        let world = self.world.borrow();
        if !world.fuse_servers.get(&self.name).is_some_and(|slots| slots.contains(slot)) {
            return Err(Error::invalid_argument(format!(
                "the command line of the FUSE server {} has no slot {slot:?}",
                self.name
            )));
        }
        self.slots.borrow_mut().insert(slot.to_owned(), value);
        Ok(())
    }

    pub(crate) fn set(&self, slot: &str, value: &str) -> Result<()> {
        let plain = value.chars().all(|c| c.is_alphanumeric() || PLAIN.contains(c));
        if value.is_empty() || value.starts_with('-') || value.split('/').any(|part| part == "..") || !plain {
            return Err(Error::invalid_argument(format!("{value:?} is not allowed in the slot {slot}")));
        }
        self.fill(slot, value.to_owned())
    }

    pub(crate) fn set_secret(&self, slot: &str, _: &Content) -> Result<()> {
        self.fill(slot, "secret".to_owned())
    }

    pub(crate) fn set_source(&self, slot: &str, source: &MountSource) -> Result<()> {
        if source.is_read_only() {
            return Err(Error::permission_denied("a read-only source cannot be passed to a FUSE server"));
        }
        self.fill(slot, source.layer())
    }

    pub(crate) fn serve(&self, read_only: bool) -> Result<DetachedMount> {
        self.world.borrow_mut().called("fuse-servers.serve")?;
        let mut mount = TestMount::of_type(&format!("fuse.{}", self.name));
        mount.options = self.slots.borrow().iter().map(|(slot, value)| (slot.clone(), Some(value.clone()))).collect();
        if read_only {
            mount.flags.insert("ro".to_owned());
        }
        Ok(DetachedMount::new(&self.world, mount))
    }
}

pub(crate) mod fuse_servers {
    use super::{BTreeMap, Error, FuseServer, RefCell, Result, current};

    pub(crate) fn open(name: &str) -> Result<FuseServer> {
        let world = current();
        world.borrow_mut().called("fuse-servers.open")?;
        if !world.borrow().fuse_servers.contains_key(name) {
            return Err(Error::permission_denied(format!("the FUSE server {name} is not granted to this plugin")));
        }
        Ok(FuseServer { world, name: name.to_owned(), slots: RefCell::new(BTreeMap::new()) })
    }
}
