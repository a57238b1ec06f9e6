//! File systems in image files: a file that was formatted through a loop device has an image in it.

use volhost_kernel::implement::{check_device_options, check_image_type, text};
use volhost_kernel::{
    Contents, DetachedMount, DeviceError, DeviceNumber, Errno, FsOption, ImageError, ImageFiles, KernelError,
    MountSource, Result, Step,
};

use super::devices::Backing;
use super::{InMemoryKernel, lock};

impl ImageFiles for InMemoryKernel {
    fn mount_image(&self, file: &MountSource, fs_type: &str, options: &[FsOption]) -> Result<DetachedMount> {
        check_image_type(file, fs_type)?;
        check_device_options(fs_type, options)?;
        let node = self.file(file)?;
        let mut state = lock(&self.state);
        let found = state.devices.over(Backing::File(node));
        let writable = |number: &DeviceNumber| state.devices.all.get(number).is_some_and(|device| !device.read_only);
        if let Some(number) = found.filter(writable) {
            let (path, by) = (text(file.label()), format!("/dev/loop{}", number.minor));
            return Err(KernelError::Device(DeviceError::Shown { step: Step::MountImage, path, by }));
        }
        state.step(Step::AttachLoop, file.label())?;
        state.step(Step::MountImage, file.label())?;
        let medium = state.devices.media.get(&Backing::File(node)).cloned().unwrap_or_default();
        let path = text(file.label());
        let root = match (&medium.contents, medium.file_system) {
            (Contents::Filesystem { fs_type: found, .. }, Some((_, root))) if found == fs_type => root,
            (found, _) => {
                let (found, wanted) = (found.to_string(), fs_type.to_owned());
                return Err(KernelError::Image(ImageError::Mismatch { path, found, wanted }));
            }
        };
        if medium.damage.is_some() {
            let (fs_type, errno, said) = (fs_type.to_owned(), Errno::UCLEAN, String::new());
            return Err(KernelError::Image(ImageError::Damaged { path, fs_type, errno, said }));
        }
        let mount = state.add_mount(root, libc::MOUNT_ATTR_RDONLY);
        self.detached(&mut state, mount, file.label().to_owned())
    }
}
