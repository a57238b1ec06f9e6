//! Unmounting: by the descriptor of the folder that the mount point is in, from the leaves up.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::LinuxKernel;
use super::stat::look;
use super::walk::{PLACE, open_beneath, proc_path};
use crate::child::unless_a_child_is_made;
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::mount_snapshot::MountSnapshot;
use crate::names::{check_name, label, text};
use crate::step::Step;
use crate::types::{Detach, MountInfo};

/// More mounts than this on one name are a faulty loop, not a volume.
const MAX_STACKED: usize = 1000;

/// The major number of file systems that lie on no device.
const NO_DEVICE: u32 = 0;
/// The types of mounts that a server exports, as the kernel reports them.
const SHARE_TYPES: [&str; 4] = ["nfs", "nfs4", "cifs", "smb3"];
/// How long the kernel may take to end the session with a server that answers.
const RELEASE_TIME: Duration = Duration::from_secs(5);

/// The result for the mounts below a volume.
enum NestedMounts {
    /// There are none.
    None,
    /// One layer of them is gone.
    Unmounted,
    /// They came from a more privileged user namespace and go only together with the volume.
    Locked,
}

impl LinuxKernel {
    pub(super) fn detach_at(&self, folder: &Directory, name: &OsStr, how: Detach) -> Result<()> {
        check_name(name)?;
        let from = folder.as_fd();
        let shown = label(&folder.label, name);
        let failed = |step| {
            let shown = &shown;
            move |errno| KernelError::failed(step, text(shown), errno)
        };
        for _ in 0..MAX_STACKED {
            let seen = match look(from, name, self.ids()) {
                Ok(seen) if seen.is_mount_root() => seen,
                Ok(_) => return self.remove_mount_point(from, name, &shown),
                Err(Errno::NOENT) => return Ok(()),
                Err(errno) => return Err(failed(Step::Inspect)(errno)),
            };
            let may_wait =
                seen.device().0 == NO_DEVICE && self.has_a_server(seen.mount_id()).map_err(failed(Step::ListMounts))?;
            let unmounted = if may_wait { self.unmount_share(from, name, how) } else { unmount(from, name, how) };
            match unmounted {
                // Nearly always a folder without another mount on it. Anything else is looked at.
                Ok(()) => match rustix::fs::unlinkat(from, name, AtFlags::REMOVEDIR) {
                    Ok(()) | Err(Errno::NOENT) => return Ok(()),
                    Err(_) => {}
                },
                // A mount with others on it counts as used; those go first. The next try reports
                // one that is truly in use.
                Err(Errno::BUSY) if how == Detach::Normal => match self.unmount_leaves(folder, name, &shown)? {
                    NestedMounts::Unmounted => {}
                    NestedMounts::None => return Err(failed(Step::Unmount)(Errno::BUSY)),
                    NestedMounts::Locked => unmount(from, name, Detach::Lazy).map_err(failed(Step::Unmount))?,
                },
                // Another process was faster.
                Err(Errno::INVAL | Errno::NOENT) if !self.is_mount(from, name) => {}
                Err(errno) => return Err(failed(Step::Unmount)(errno)),
            }
        }
        Err(failed(Step::Unmount)(Errno::BUSY))
    }

    fn has_a_server(&self, mount: u64) -> std::result::Result<bool, Errno> {
        Ok(self.mount_of_id(mount)?.is_some_and(|mount| SHARE_TYPES.contains(&mount.fs_type.as_str())))
    }

    /// Unmounts what a server exports. With its last mount the kernel ends the session, and waits
    /// for a server that is gone for minutes, though the mount is gone at once. Then so is this.
    fn unmount_share(&self, folder: BorrowedFd<'_>, name: &OsStr, how: Detach) -> std::result::Result<(), Errno> {
        let copy = folder.try_clone_to_owned().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let of_thread = name.to_owned();
        let receiver = start(copy, move |folder| unmount(folder, &of_thread, how)).map_err(|_| Errno::AGAIN)?;
        match receiver.recv_timeout(RELEASE_TIME) {
            Ok(unmounted) => unmounted,
            Err(_) if !self.is_mount(folder, name) => Ok(()),
            Err(_) => receiver.recv().unwrap_or(Err(Errno::IO)),
        }
    }

    fn is_mount(&self, folder: BorrowedFd<'_>, name: &OsStr) -> bool {
        look(folder, name, self.ids()).is_ok_and(|seen| seen.is_mount_root())
    }

    /// One of these mounts whose file system is mounted nowhere else: the host did not bind it from
    /// another place, a user mounted it here.
    fn only_inside<'a>(&self, below: &'a [MountInfo]) -> std::result::Result<Option<&'a MountInfo>, Errno> {
        if below.is_empty() {
            return Ok(None);
        }
        let known = MountSnapshot::of(below.iter().map(|mount| mount.id));
        let outside: HashSet<_> = self.others(&known)?.iter().map(|mount| mount.device).collect();
        Ok(below.iter().find(|mount| !outside.contains(&mount.device)))
    }

    /// Unmounts the mounts below a mounted volume that carry no other.
    fn unmount_leaves(&self, folder: &Directory, name: &OsStr, shown: &Path) -> Result<NestedMounts> {
        let from = folder.as_fd();
        let failed = |errno| KernelError::failed(Step::ListMounts, text(shown), errno);
        // Held only while listing: an open handle keeps the mount busy.
        let below = self.below(open_beneath(from, name, PLACE).map_err(failed)?.as_fd()).map_err(failed)?;
        if let Some(mount) = self.only_inside(&below).map_err(failed)? {
            return Err(KernelError::MountInside { path: text(&shown.join(&mount.point)) });
        }
        let parents: HashSet<_> = below.iter().map(|mount| mount.parent).collect();
        let mut found = NestedMounts::None;
        for mount in below.iter().filter(|mount| !parents.contains(&mount.id)) {
            let inner = Path::new(name).join(&mount.point);
            let shown = label(&folder.label, &inner);
            let (Some(parent), Some(last)) = (inner.parent(), inner.file_name()) else {
                continue;
            };
            let parent = open_beneath(from, parent, PLACE | OFlags::DIRECTORY)
                .map_err(|errno| KernelError::walking(Step::Unmount, text(&shown), errno))?;
            match unmount(parent.as_fd(), last, Detach::Normal) {
                Err(Errno::INVAL) if self.is_mount(parent.as_fd(), last) => {
                    return Ok(NestedMounts::Locked);
                }
                Ok(()) | Err(Errno::INVAL | Errno::NOENT) => found = NestedMounts::Unmounted,
                Err(errno) => {
                    return Err(KernelError::failed(Step::Unmount, text(&shown), errno));
                }
            }
        }
        Ok(found)
    }
}

/// Runs `work` with this folder on a thread of its own, which sends the result.
///
/// # Guarantees
/// The folder is closed when the result is received: it keeps no mount in use after that.
fn start<T: Send + 'static>(
    folder: OwnedFd,
    work: impl FnOnce(BorrowedFd<'_>) -> T + Send + 'static,
) -> io::Result<Receiver<T>> {
    let (sender, receiver) = mpsc::channel();
    let run = move || {
        let done = work(folder.as_fd());
        drop(folder);
        // After a release that took too long there is no receiver.
        let _ = sender.send(done);
    };
    thread::Builder::new().name("unmount-share".to_owned()).spawn(run)?;
    Ok(receiver)
}

/// Unmounts the topmost mount at an entry of an open folder; a symbolic link there is not followed.
pub(super) fn unmount(folder: BorrowedFd<'_>, name: &OsStr, how: Detach) -> std::result::Result<(), Errno> {
    let flags = match how {
        Detach::Normal => UnmountFlags::NOFOLLOW,
        Detach::Lazy => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    // umount2 takes only paths; this one goes through the descriptor, so nothing before the name
    // can be swapped.
    let path = proc_path(folder, Some(name));
    unless_a_child_is_made(|| rustix::mount::unmount(path.as_path(), flags))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::start;

    /// How often it is tried: a folder that is closed after the result is sent is often closed before
    /// the receiver looks.
    const TIMES: u8 = 200;

    #[test]
    fn the_folder_of_a_share_is_closed_when_its_unmount_has_an_answer() {
        for time in 0..TIMES {
            let (mut reader, writer) = std::io::pipe().unwrap();
            rustix::io::ioctl_fionbio(&reader, true).unwrap();
            let receiver = start(writer.into(), move |_| time).unwrap();
            assert_eq!(receiver.recv().unwrap(), time);
            // The end of what is written: no writer is open.
            assert_eq!(reader.read(&mut [0]).unwrap(), 0, "time {time}");
        }
    }
}
