//! Id-mapped mounts. The map is that of a user namespace, and a namespace needs a process to begin
//! in: a child that does nothing, and ends as soon as the namespace is open here.

use std::fmt::Write;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions};

use super::LinuxKernel;
use super::files::errno_of;
use super::syscall::{clone_idle_in_user_namespace, kill, mount_set_ids};
use crate::error::{KernelError, Result};
use crate::handle::DetachedMount;
use crate::names::text;
use crate::ownership::{IdMap, IdRange, check_map};
use crate::step::Step;

impl LinuxKernel {
    pub(super) fn map_ids(&self, mount: &DetachedMount, map: &IdMap) -> Result<()> {
        check_map(map)?;
        let fd = mount.as_fd();
        let shown = text(&mount.label);
        let namespace = namespace_of(map).map_err(|errno| KernelError::failed(Step::MakeIdMap, &shown, errno))?;
        mount_set_ids(fd, namespace.as_fd()).map_err(|errno| match errno {
            Errno::INVAL => KernelError::FilesystemLacks {
                path: shown.clone(),
                feature: "id-mapped mounts",
                reason: "Invalid argument (EINVAL)".to_owned(),
            },
            Errno::PERM => KernelError::FilesystemLacks {
                path: shown.clone(),
                feature: "another id map",
                reason: "Operation not permitted (EPERM), the mount has one already or volhost lacks CAP_SYS_ADMIN"
                    .to_owned(),
            },
            errno => KernelError::failed(Step::MapIds, &shown, errno),
        })
    }
}

/// A user namespace with this map.
fn namespace_of(map: &IdMap) -> std::result::Result<OwnedFd, Errno> {
    let child = WaitingChild(clone_idle_in_user_namespace()?);
    let base = PathBuf::from(format!("/proc/{}", child.0.as_raw_nonzero()));
    let write = |name: &str, ranges: &[IdRange]| {
        std::fs::write(base.join(name), lines(ranges)).map_err(|error| errno_of(&error))
    };
    write("uid_map", &map.users)?;
    write("gid_map", &map.groups)?;
    File::open(base.join("ns/user")).map(OwnedFd::from).map_err(|error| errno_of(&error))
}

/// The ranges as `uid_map` takes them: in one write.
fn lines(ranges: &[IdRange]) -> String {
    ranges.iter().fold(String::new(), |mut text, range| {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{} {} {}", range.stored, range.seen, range.count);
        text
    })
}

/// A child that waits for its end.
struct WaitingChild(Pid);

impl Drop for WaitingChild {
    fn drop(&mut self) {
        // It is this thread's own and not reaped yet, so no other process has the id.
        kill(self.0);
        while matches!(rustix::process::waitpid(Some(self.0), WaitOptions::empty()), Err(Errno::INTR)) {}
    }
}
