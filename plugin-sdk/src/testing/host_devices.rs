//! The double's devices from the test's side, and the calls of a plugin's capabilities, as the host
//! makes them.

use super::devices::{Device, TestAttachment, TestDisk};
use super::host::TestHost;
use super::identity::{Measurement, TestMeasurement};
use super::pod::TestPod;
use super::target::{MountTarget, TestTarget};
use super::volume::TestVolume;
use crate::capabilities::{Attacher, BlockMapper, Expander, Stager, Stats};
use crate::devices::{Attachment, BlockDevice, LentDevice};
use crate::error::Result;

impl TestHost {
    /// Grants the plugin a folder for images, and puts it on the host.
    pub fn grant_images(&self, folder: &str) -> &Self {
        self.directory(folder);
        self.change(|world| world.devices.folders.push(folder.to_owned()))
    }

    /// Puts an image file of this size on the host, blank.
    pub fn image(&self, path: &str, size: u64) -> &Self {
        self.change_disk(path, |disk| disk.size = size)
    }

    /// Puts this on the image or disk: a file system's type over its whole size, or `partitions`.
    pub fn contents(&self, path: &str, contents: &str) -> &Self {
        self.change_disk(path, |disk| {
            disk.contents = Some(contents.to_owned());
            disk.fs_size = disk.size;
        })
    }

    /// Damages the file system on the image or disk beyond repair.
    pub fn damage(&self, path: &str) -> &Self {
        self.change_disk(path, |disk| disk.damaged = true)
    }

    /// Grants the plugin the block devices whose paths begin so.
    pub fn grant_devices(&self, paths: &str) -> &Self {
        self.change(|world| world.devices.granted.push(paths.to_owned()))
    }

    /// Lets a device refuse writes.
    pub fn lock_device(&self, path: &str) -> &Self {
        self.change(|world| {
            if let Some(device) = world.devices.devices.get_mut(path) {
                device.read_only = true;
            }
        })
    }

    /// Puts a disk of this size on the host, blank.
    pub fn disk_device(&self, path: &str, size: u64) -> &Self {
        self.image(path, size).block_device(path);
        let device = Device { backing: path.to_owned(), read_only: false, busy: false };
        self.change(|world| {
            world.devices.devices.insert(path.to_owned(), device);
        })
    }

    /// Sets whether a device is in use.
    pub fn use_device(&self, path: &str, busy: bool) -> &Self {
        self.change(|world| {
            if let Some(device) = world.devices.devices.get_mut(path) {
                device.busy = busy;
            }
        })
    }

    fn change_disk(&self, path: &str, change: impl FnOnce(&mut TestDisk)) -> &Self {
        self.change(|world| change(world.devices.disks.entry(path.to_owned()).or_default()))
    }

    /// The image file or disk at this path.
    #[must_use]
    pub fn disk(&self, path: &str) -> Option<TestDisk> {
        self.world.borrow().devices.disks.get(path).cloned()
    }

    /// The path of the loop device over an image.
    #[must_use]
    pub fn loop_over(&self, image: &str) -> Option<String> {
        self.world.borrow().devices.loop_over(image).map(|(path, _)| path.clone())
    }

    /// The staging target of the volume of that name.
    #[must_use]
    pub fn node_target(&self, volume: &str) -> TestTarget {
        TestTarget::new(MountTarget::new(&self.world, "", volume))
    }

    /// [`Attacher::attach`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn attach<P: Attacher>(&self, volume: &TestVolume) -> Result<TestAttachment> {
        P::attach(&volume.handle()).map(|attached_as| TestAttachment::new(&attached_as))
    }

    /// [`Attacher::detach`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn detach<P: Attacher>(&self, volume_name: &str) -> Result<()> {
        P::detach(volume_name)
    }

    /// [`Attacher::wait_for_attach`]; the attachment, with its device.
    ///
    /// # Errors
    /// The plugin's.
    pub fn wait_for_attach<P: Attacher>(
        &self,
        volume: &TestVolume,
        attached: &TestAttachment,
    ) -> Result<TestAttachment> {
        let handle = attached.handle(&self.world);
        let device = P::wait_for_attach(&volume.handle(), &Attachment::new(&handle))?;
        Ok(device.map_or_else(|| attached.clone(), |device| attached.clone().with_device_path(&device.path())))
    }

    /// [`Attacher::are_attached`], of one volume.
    ///
    /// # Errors
    /// The plugin's.
    pub fn is_attached<P: Attacher>(&self, volume_name: &str) -> Result<bool> {
        Ok(P::are_attached(&[volume_name.to_owned()])? == [true])
    }

    /// [`Stager::stage`], at [`TestHost::node_target`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn stage<P: Stager>(&self, volume: &TestVolume, attached: Option<&TestAttachment>) -> Result<()> {
        let attached = attached.map(|attached| attached.handle(&self.world));
        let target = self.node_target(volume.name());
        P::stage(&volume.handle(), attached.as_ref().map(Attachment::new).as_ref(), &target.handle())
    }

    /// [`Stager::unstage`]. `volume` is its name in pods' folders.
    ///
    /// # Errors
    /// The plugin's.
    pub fn unstage<P: Stager>(&self, volume_name: &str, volume: &str) -> Result<()> {
        P::unstage(volume_name, &self.node_target(volume).handle())
    }

    /// [`BlockMapper::stage_device`]; the staged device's path, if there is one.
    ///
    /// # Errors
    /// The plugin's.
    pub fn stage_device<P: BlockMapper>(
        &self,
        volume: &TestVolume,
        attached: Option<&TestAttachment>,
    ) -> Result<Option<String>> {
        let attached = attached.map(|attached| attached.handle(&self.world));
        let device = P::stage_device(&volume.handle(), attached.as_ref().map(Attachment::new).as_ref())?;
        Ok(device.as_ref().map(BlockDevice::path))
    }

    /// [`BlockMapper::map_device`] of the staged device at this path, if there is one; the path of
    /// the pod's own device, if it has one.
    ///
    /// # Errors
    /// The plugin's; `NotFound` when there is no such device.
    pub fn map_device<P: BlockMapper>(
        &self,
        volume: &TestVolume,
        pod: &TestPod,
        device: Option<&str>,
    ) -> Result<Option<String>> {
        let device = device.map(|device| super::devices::BlockDevice::open(&self.world, device)).transpose()?;
        let lent = device.as_ref().map(LentDevice::new);
        let own = P::map_device(&volume.handle(), &pod.handle(), lent.as_ref())?;
        Ok(own.as_ref().map(BlockDevice::path))
    }

    /// [`Expander::expand`] of a volume that is mounted at [`TestHost::node_target`] (`mounted`),
    /// or is used as a device.
    ///
    /// # Errors
    /// The plugin's.
    pub fn expand<P: Expander>(
        &self,
        volume: &TestVolume,
        attached: Option<&TestAttachment>,
        mounted: bool,
        to: u64,
    ) -> Result<u64> {
        let attached = attached.map(|attached| attached.handle(&self.world));
        let target = self.node_target(volume.name());
        let target = mounted.then(|| target.handle());
        P::expand(&volume.handle(), attached.as_ref().map(Attachment::new).as_ref(), target.as_ref(), to)
    }
    /// [`Stats::measure`] of a volume that is published at this target; none for a device.
    ///
    /// # Errors
    /// The plugin's.
    pub fn measure<P: Stats>(&self, volume_name: &str, target: Option<&TestTarget>) -> Result<TestMeasurement> {
        let form = Measurement::default();
        let target = target.map(TestTarget::handle);
        P::measure(volume_name, target.as_ref(), &mut crate::describe::Measurement::new(&form))?;
        Ok(form.into_inner())
    }
}
