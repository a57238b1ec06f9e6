//! FUSE mounts by `fsopen`, and connections by the kernel's own list of them (`fusectl`), which is
//! looked into without being mounted.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::LinuxKernel;
use super::fs_context::{configure, log, refused};
use super::stat::look;
use crate::error::{KernelError, Result};
use crate::filesystems::LABEL_OPTION;
use crate::fuse::{FuseConnection, FuseMount, FuseMounts, FuseOptions};
use crate::handle::{DetachedMount, MountSource};
use crate::names::text;
use crate::step::Step;
use crate::types::FsOption;

const FUSE: &str = "fuse";
const FUSECTL: &str = "fusectl";
const DEVICE: &str = "/dev/fuse";
/// The root is a folder, as `st_mode` writes it in octal.
const ROOT_MODE: &str = "40000";
/// Bits of a device number that are the minor one, where the kernel keeps it in one word.
const MINOR_BITS: u32 = 20;

impl FuseMounts for LinuxKernel {
    fn fuse(&self, options: &FuseOptions) -> Result<FuseMount> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let device = rustix::fs::openat(CWD, DEVICE, flags, Mode::empty())
            .map_err(|errno| KernelError::failed(Step::OpenFuse, DEVICE, errno))?;
        let failed = |errno, detail| KernelError::Failed {
            step: Step::CreateFileSystem,
            path: format!("fuse.{}", options.subtype),
            errno,
            detail,
        };
        let context = open_context(FUSE).map_err(|errno| failed(errno, String::new()))?;
        for option in settings(options, device.as_fd()) {
            configure(context.as_fd(), &option).map_err(|errno| refused(FUSE, &option, errno, log(context.as_fd())))?;
        }
        rustix::mount::fsconfig_create(&context).map_err(|errno| failed(errno, log(context.as_fd())))?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let mount = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
            .map_err(|errno| failed(errno, log(context.as_fd())))?;
        let (major, minor) = look(&mount, "", self.ids()).map_err(|errno| failed(errno, String::new()))?.device();
        let connection = FuseConnection((major << MINOR_BITS) | minor);
        let mount = DetachedMount { fd: mount, label: options.source.clone().into() };
        Ok(FuseMount { device, mount, connection })
    }

    fn ask_server(&self, source: &MountSource) -> Result<()> {
        // The kernel lets no question pass before the server has answered its first one (INIT).
        rustix::fs::fstatfs(source.as_fd())
            .map(|_| ())
            .map_err(|errno| KernelError::failed(Step::AskServer, text(&source.label), errno))
    }

    fn is_mounted_anywhere(&self, connection: FuseConnection) -> Result<bool> {
        let failed = |errno| KernelError::failed(Step::FindConnection, connection.0.to_string(), errno);
        let all = connections().map_err(failed)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        match rustix::fs::openat(&all, connection.0.to_string(), flags, Mode::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(failed(errno)),
        }
    }

    fn end_connection(&self, connection: FuseConnection) -> Result<bool> {
        let failed =
            |errno| KernelError::failed(Step::EndServer, format!("the FUSE connection {}", connection.0), errno);
        let all = connections().map_err(failed)?;
        let abort = format!("{}/abort", connection.0);
        match rustix::fs::openat(&all, abort, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(abort) => rustix::io::write(&abort, b"1").map(|_| true).map_err(failed),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(failed(errno)),
        }
    }

    fn descriptor(&self, source: &MountSource) -> Result<OwnedFd> {
        source.as_fd().try_clone_to_owned().map_err(|error| super::lost_handle(&source.label, &error))
    }
}

fn settings(options: &FuseOptions, device: BorrowedFd<'_>) -> Vec<FsOption> {
    let mut all = vec![
        FsOption::new("source", &options.source),
        FsOption::new("subtype", &options.subtype),
        FsOption::new("fd", device.as_raw_fd().to_string()),
        FsOption::new("rootmode", ROOT_MODE),
        FsOption::new("user_id", options.user.to_string()),
        FsOption::new("group_id", options.group.to_string()),
        // Pods run as other users than the server.
        FsOption::flag("allow_other"),
    ];
    all.extend(options.default_permissions.then(|| FsOption::flag("default_permissions")));
    all.extend(options.read_only.then(|| FsOption::flag("ro")));
    all.extend(options.label.as_ref().map(|label| FsOption::new(LABEL_OPTION, label)));
    all
}

fn open_context(fs_type: &str) -> std::result::Result<OwnedFd, Errno> {
    rustix::mount::fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC)
}

/// The folder of the kernel's list of connections: a detached mount, so that the machine need not
/// show it anywhere.
fn connections() -> std::result::Result<OwnedFd, Errno> {
    let context = open_context(FUSECTL)?;
    rustix::mount::fsconfig_create(&context)?;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}
