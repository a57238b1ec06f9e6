//! iSCSI targets of the double: their units are disks.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use super::devices::{BlockDevice, Device, TestDisk};
use super::files::Content;
use super::host::TestHost;
use super::world::{Shared, current};
use crate::error::{Error, Result};

/// A target.
#[derive(Debug, Default)]
pub(crate) struct Target {
    portals: BTreeSet<(String, u16)>,
    units: BTreeMap<u32, u64>,
    /// What this node authenticates with.
    chap: Option<(Vec<u8>, Vec<u8>)>,
}

/// All targets by their names, and which of their units are connected.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    by_name: BTreeMap<String, Target>,
    connected: BTreeSet<String>,
}

impl TestHost {
    /// Lets a target answer at a portal. A portal without one can't be reached.
    pub fn iscsi_target(&self, address: &str, port: u16, target: &str) -> &Self {
        self.change(|world| {
            world
                .targets_of_iscsi
                .by_name
                .entry(target.to_owned())
                .or_default()
                .portals
                .insert((address.to_owned(), port));
        })
    }

    /// Gives a target a unit of this size, blank; or another size. Its device is `/dev/sdTARGET-LUN`.
    pub fn iscsi_unit(&self, target: &str, lun: u32, size: u64) -> &Self {
        self.change(|world| {
            world.targets_of_iscsi.by_name.entry(target.to_owned()).or_default().units.insert(lun, size);
        })
    }

    /// Lets a target take only a node that authenticates so.
    pub fn iscsi_chap(&self, target: &str, name: &str, password: &str) -> &Self {
        let chap = (name.as_bytes().to_vec(), password.as_bytes().to_vec());
        self.change(|world| world.targets_of_iscsi.by_name.entry(target.to_owned()).or_default().chap = Some(chap))
    }

    /// The connected units: `INITIATOR by INTERFACE to TARGET lun N`, sorted.
    ///
    /// ```
    /// use volhost_plugin_sdk::iscsi_sessions::LogicalUnit;
    /// use volhost_plugin_sdk::testing::TestHost;
    ///
    /// let host = TestHost::new();
    /// host.iscsi_target("::1", 3260, "iqn.a:b").iscsi_unit("iqn.a:b", 3, 1 << 20).iscsi_chap("iqn.a:b", "node", "secret");
    /// let unit = LogicalUnit::new("iqn.a:b", 3);
    /// unit.add_portal("::1", 3260).unwrap();
    /// assert!(unit.connect().is_err(), "it does not authenticate");
    /// assert!(host.iscsi_connected().is_empty());
    /// ```
    #[must_use]
    pub fn iscsi_connected(&self) -> Vec<String> {
        self.world.borrow().targets_of_iscsi.connected.iter().cloned().collect()
    }
}

/// A unit's handle.
pub(crate) struct LogicalUnit {
    world: Shared,
    target: String,
    lun: u32,
    fields: RefCell<Fields>,
}

#[derive(Default)]
struct Fields {
    portals: Vec<(String, u16)>,
    interface: String,
    initiator: String,
    chap: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for LogicalUnit {
    /// Without its passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogicalUnit({})", self.name())
    }
}

impl LogicalUnit {
    pub(crate) fn new(target: &str, lun: u32) -> Self {
        let fields = Fields { interface: "default".to_owned(), initiator: "node".to_owned(), ..Fields::default() };
        Self { world: current(), target: target.to_owned(), lun, fields: RefCell::new(fields) }
    }

    fn name(&self) -> String {
        let fields = self.fields.borrow();
        format!("{} by {} to {} lun {}", fields.initiator, fields.interface, self.target, self.lun)
    }

    fn path(&self) -> String {
        format!("/dev/sd{}-{}", self.target, self.lun)
    }

    pub(crate) fn portal(&self, address: &str, port: u16) -> Result<()> {
        if address.parse::<IpAddr>().is_err() {
            return Err(Error::invalid_argument(format!("portal {address:?} must be an IP address")));
        }
        self.fields.borrow_mut().portals.push((address.to_owned(), port));
        Ok(())
    }

    pub(crate) fn initiator_interface(&self, name: &str) {
        self.fields.borrow_mut().interface = name.to_owned();
    }

    pub(crate) fn initiator_name(&self, name: &str) {
        self.fields.borrow_mut().initiator = name.to_owned();
    }

    pub(crate) fn authenticate(&self, name: &Content, password: &Content) {
        self.fields.borrow_mut().chap = Some((name.0.to_vec(), password.0.to_vec()));
    }

    /// The double's targets are who they say.
    #[expect(clippy::unused_self, reason = "the real host's call has it")]
    pub(crate) fn authenticate_target(&self, _name: &Content, _password: &Content) {}

    fn size(&self) -> Result<u64> {
        let world = self.world.borrow();
        let fields = self.fields.borrow();
        let target = world.targets_of_iscsi.by_name.get(&self.target);
        let answers = |portal: &(String, u16)| {
            world.targets_of_iscsi.by_name.values().any(|target| target.portals.contains(portal))
        };
        if !fields.portals.iter().any(answers) {
            return Err(Error::retryable(format!("{}: no target answers", self.target)));
        }
        let target = target.filter(|target| fields.portals.iter().any(|portal| target.portals.contains(portal)));
        let target = target.ok_or_else(|| Error::not_found(format!("the portals lack {}", self.target)))?;
        if target.chap.is_some() && target.chap != fields.chap {
            return Err(Error::permission_denied(format!("{} refuses the login of this node", self.target)));
        }
        let size = target.units.get(&self.lun).copied();
        size.ok_or_else(|| Error::not_found(format!("{} has no LUN {}", self.target, self.lun)))
    }

    pub(crate) fn connect(&self) -> Result<BlockDevice> {
        self.world.borrow_mut().called("iscsi-sessions.connect")?;
        let (size, path) = (self.size()?, self.path());
        {
            let world = &mut *self.world.borrow_mut();
            world.targets_of_iscsi.connected.insert(self.name());
            world.devices.disks.entry(path.clone()).or_insert_with(|| TestDisk { size, ..TestDisk::default() });
            let device = Device { backing: path.clone(), read_only: false, busy: false };
            world.devices.devices.entry(path.clone()).or_insert(device);
        }
        BlockDevice::open(&self.world, &path)
    }

    pub(crate) fn rescan(&self) -> Result<BlockDevice> {
        self.world.borrow_mut().called("iscsi-sessions.rescan")?;
        let (size, path) = (self.size()?, self.path());
        if let Some(disk) = self.world.borrow_mut().devices.disks.get_mut(&path) {
            disk.size = size;
        }
        BlockDevice::open(&self.world, &path)
    }

    pub(crate) fn disconnect(&self) -> Result<()> {
        self.world.borrow_mut().called("iscsi-sessions.disconnect")?;
        let path = self.path();
        let world = &mut *self.world.borrow_mut();
        if world.devices.devices.get(&path).is_some_and(|device| device.busy) {
            return Err(Error::busy(format!("{path} is in use")));
        }
        world.devices.devices.remove(&path);
        world.targets_of_iscsi.connected.remove(&self.name());
        Ok(())
    }
}
