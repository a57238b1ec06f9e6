//! Fibre Channel targets of the double: their units are disks.

use std::collections::{BTreeMap, BTreeSet};

use super::host::TestHost;

/// The units by the name of a port or their own, and which are connected.
#[derive(Debug, Default)]
pub(crate) struct Fabric {
    units: BTreeMap<(String, Option<u32>), u64>,
    connected: BTreeSet<String>,
}

impl TestHost {
    /// Gives the target behind a port a unit of this size, blank; or another size. Its device is
    /// `/dev/sdPORT-LUN`.
    pub fn fc_unit(&self, port: &str, lun: u32, size: u64) -> &Self {
        self.change(|world| {
            world.fabric.units.insert((port.to_owned(), Some(lun)), size);
        })
    }

    /// Gives the fabric a unit that has this name itself. Its device is `/dev/sdNAME`.
    pub fn fc_named_unit(&self, name: &str, size: u64) -> &Self {
        self.change(|world| {
            world.fabric.units.insert((name.to_owned(), None), size);
        })
    }

    /// The devices of the connected units, sorted.
    ///
    /// ```
    /// use volhost_plugin_sdk::fc_devices::FcUnit;
    /// use volhost_plugin_sdk::testing::TestHost;
    ///
    /// let host = TestHost::new();
    /// host.fc_unit("50060e801049cfd1", 0, 1 << 20).fc_named_unit("3600508b4", 1 << 20);
    /// FcUnit::named(["3600508b4"]).connect()?;
    /// assert_eq!(host.fc_connected(), ["/dev/sd3600508b4"]);
    /// # Ok::<(), volhost_plugin_sdk::Error>(())
    /// ```
    #[must_use]
    pub fn fc_connected(&self) -> Vec<String> {
        self.world.borrow().fabric.connected.iter().cloned().collect()
    }
}

pub(crate) mod fc_devices {
    use crate::error::{Error, Result};
    use crate::testing::devices::{BlockDevice, Device, TestDisk};
    use crate::testing::world::{World, current};

    /// The device's path and size.
    fn find(world: &World, names: &[String], lun: Option<u32>) -> Result<(String, u64)> {
        let found = names.iter().find_map(|name| Some((name, *world.fabric.units.get(&(name.clone(), lun))?)));
        let (name, size) = found.ok_or_else(|| match lun {
            Some(lun) => Error::not_found(format!("the target at {} has no LUN {lun}", names.join(", "))),
            None => Error::not_found(format!("there is no unit {}", names.join(", "))),
        })?;
        Ok((lun.map_or_else(|| format!("/dev/sd{name}"), |lun| format!("/dev/sd{name}-{lun}")), size))
    }

    pub(crate) fn connect(names: &[String], lun: Option<u32>) -> Result<BlockDevice> {
        let world = current();
        world.borrow_mut().called("fc-devices.connect")?;
        let (path, size) = find(&world.borrow(), names, lun)?;
        {
            let world = &mut *world.borrow_mut();
            world.fabric.connected.insert(path.clone());
            world.devices.disks.entry(path.clone()).or_insert_with(|| TestDisk { size, ..TestDisk::default() });
            let device = Device { backing: path.clone(), read_only: false, busy: false };
            world.devices.devices.entry(path.clone()).or_insert(device);
        }
        BlockDevice::open(&world, &path)
    }

    pub(crate) fn rescan(names: &[String], lun: Option<u32>) -> Result<BlockDevice> {
        let world = current();
        world.borrow_mut().called("fc-devices.rescan")?;
        let (path, size) = find(&world.borrow(), names, lun)?;
        if let Some(disk) = world.borrow_mut().devices.disks.get_mut(&path) {
            disk.size = size;
        }
        BlockDevice::open(&world, &path)
    }

    pub(crate) fn disconnect(names: &[String], lun: Option<u32>) -> Result<()> {
        let world = current();
        world.borrow_mut().called("fc-devices.disconnect")?;
        let Ok((path, _)) = find(&world.borrow(), names, lun) else { return Ok(()) };
        let world = &mut *world.borrow_mut();
        if world.devices.devices.get(&path).is_some_and(|device| device.busy) {
            return Err(Error::busy(format!("{path} is in use")));
        }
        world.devices.devices.remove(&path);
        world.fabric.connected.remove(&path);
        Ok(())
    }
}
