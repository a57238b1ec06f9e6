//! Overlays: `fsopen` with layers by descriptor, so that a path that changes meanwhile changes
//! nothing.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, RenameFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::LinuxKernel;
use super::fs_context::{configure, log, refused};
use super::inspect::MountInspection;
use super::stat::look_closer;
use super::walk::{FOLDER, FOLDER_PLACE, make_exact, open_on_same_mount, proc_path};
use crate::error::{KernelError, Result};
use crate::handle::{DetachedMount, MountSource, SourceKind};
use crate::names::{label, text};
use crate::overlays::{Overlays, UPPER, UPPER_IN_THE_MAKING, WORK, check_overlay, check_source};
use crate::step::Step;
use crate::types::FsOption;

const IN_ONE_ANOTHER: &str = "two of the layers are the same folder, or one lies in another";
const OVERLAY: &str = "overlay";
/// The work folder is the kernel's alone.
const WORK_MODE: u32 = 0o700;

/// The top's two folders.
struct WritableTop {
    upper: OwnedFd,
    work: OwnedFd,
}

impl Overlays for LinuxKernel {
    fn overlay(
        &self,
        lowers: &[&MountSource],
        top: Option<&MountSource>,
        options: &[FsOption],
    ) -> Result<DetachedMount> {
        self.make_overlay(lowers, top, options, OVERLAY)
    }

    fn layers(&self, lowers: &[&MountSource], source: &str) -> Result<DetachedMount> {
        check_source(source)?;
        self.make_overlay(lowers, None, &[], source)
    }

    fn root_of(&self, mount: &DetachedMount) -> Result<MountSource> {
        let fd = mount.as_fd().try_clone_to_owned().map_err(|error| super::lost_handle(&mount.label, &error))?;
        Ok(MountSource { fd, label: mount.label.clone(), kind: SourceKind::Directory })
    }
}

impl LinuxKernel {
    fn make_overlay(
        &self,
        lowers: &[&MountSource],
        top: Option<&MountSource>,
        options: &[FsOption],
        source: &str,
    ) -> Result<DetachedMount> {
        check_overlay(lowers, top, options)?;
        let lower_fds = lowers.iter().map(AsFd::as_fd).collect::<Vec<_>>();
        let writable = match (top, lower_fds.first()) {
            (Some(top), Some(first)) => {
                self.check_apart(lowers, &lower_fds, top)?;
                Some(writable(top, *first)?)
            }
            _ => None,
        };
        let shown = named(lowers, top);
        let failed =
            |errno, detail| KernelError::Failed { step: Step::MountOverlay, path: shown.clone(), errno, detail };
        let context = rustix::mount::fsopen(OVERLAY, FsOpenFlags::FSOPEN_CLOEXEC).map_err(|errno| {
            let known = if errno == Errno::NODEV { "this kernel knows no overlay" } else { "" };
            failed(errno, known.to_owned())
        })?;
        let said = |errno| failed(errno, log(context.as_fd()));
        rustix::mount::fsconfig_set_string(&context, "source", source).map_err(said)?;
        self.set_layers(context.as_fd(), &lower_fds, writable.as_ref())
            .map_err(|errno| not_made(&shown, top, errno, log(context.as_fd())))?;
        for option in options {
            configure(context.as_fd(), option)
                .map_err(|errno| refused(OVERLAY, option, errno, log(context.as_fd())))?;
        }
        rustix::mount::fsconfig_create(&context).map_err(|errno| not_made(&shown, top, errno, log(context.as_fd())))?;
        let mount = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
            .map_err(|errno| failed(errno, log(context.as_fd())))?;
        Ok(DetachedMount { fd: mount, label: source.into() })
    }

    /// Refuses a top that is a lower or lies in one, which the kernel lets pass: the overlay would
    /// show its own top, changing.
    fn check_apart(&self, lowers: &[&MountSource], fds: &[BorrowedFd<'_>], top: &MountSource) -> Result<()> {
        let failed = |errno| KernelError::failed(Step::Inspect, text(&top.label), errno);
        // By device and inode: whatever mount shows it, it is the same folder.
        let look = |fd: BorrowedFd<'_>| {
            look_closer(fd, "", self.ids()).map(|seen| (seen.device(), seen.inode(), seen.mount_id()))
        };
        let is_lower = |at: (u32, u32), inode| {
            let same = |fd: BorrowedFd<'_>| look(fd).is_ok_and(|(device, other, _)| (device, other) == (at, inode));
            fds.iter().any(|fd| same(*fd))
        };
        let mut here = open_up(top.as_fd(), ".").map_err(failed)?;
        loop {
            let (device, inode, mount) = look(here.as_fd()).map_err(failed)?;
            if is_lower(device, inode) {
                let (layers, why) = (named(lowers, Some(top)), IN_ONE_ANOTHER);
                return Err(KernelError::LayersRefused { layers, why, errno: Errno::LOOP, said: String::new() });
            }
            here = open_up(here.as_fd(), "..").map_err(failed)?;
            // The root of all, or of a detached mount, is above itself.
            if look(here.as_fd()).map_err(failed)? == (device, inode, mount) {
                return Ok(());
            }
        }
    }

    fn set_layers(
        &self,
        context: BorrowedFd<'_>,
        lowers: &[BorrowedFd<'_>],
        writable: Option<&WritableTop>,
    ) -> std::result::Result<(), Errno> {
        let top = writable.map(|top| [("upperdir", top.upper.as_fd()), ("workdir", top.work.as_fd())]);
        let top = top.into_iter().flatten();
        match self.inspection {
            // Layers by descriptor came with Linux 6.13, as did these ways to look at mounts.
            MountInspection::StatMount => {
                let lowers = lowers.iter().map(|lower| ("lowerdir+", *lower));
                lowers.chain(top).try_for_each(|(key, fd)| rustix::mount::fsconfig_set_fd(context, key, fd))
            }
            // Before, by the names of the descriptors, which the kernel follows to the very
            // folders.
            MountInspection::MountInfo => {
                let lowers: Vec<String> = lowers.iter().map(|lower| text(&proc_path(*lower, None))).collect();
                rustix::mount::fsconfig_set_string(context, "lowerdir", lowers.join(":"))?;
                top.into_iter()
                    .try_for_each(|(key, fd)| rustix::mount::fsconfig_set_string(context, key, proc_path(fd, None)))
            }
        }
    }
}

/// Opens a folder by one of its own entries for itself and what is above.
fn open_up(folder: BorrowedFd<'_>, to: &str) -> std::result::Result<OwnedFd, Errno> {
    rustix::fs::openat(folder, to, FOLDER_PLACE, Mode::empty())
}

/// The two folders of a top, made if they are missing.
fn writable(top: &MountSource, first: BorrowedFd<'_>) -> Result<WritableTop> {
    let place = top.as_fd();
    make_exact(place, OsStr::new(WORK), WORK_MODE, &label(&top.label, OsStr::new(WORK)))?;
    let open = |name: &str| {
        open_on_same_mount(place, name, FOLDER_PLACE)
            .map_err(|errno| KernelError::walking(Step::OpenFolder, text(&label(&top.label, OsStr::new(name))), errno))
    };
    let upper = match open(UPPER) {
        Err(error) if error.errno() == Some(Errno::NOENT) => {
            make_upper(place, first, &label(&top.label, OsStr::new(UPPER)))?;
            open(UPPER)?
        }
        found => found?,
    };
    Ok(WritableTop { upper, work: open(WORK)? })
}

/// Makes an upper folder that looks like the lower one: it is the root that users of the overlay
/// see. It gets its name last, so that a crash leaves none that looks otherwise.
fn make_upper(place: BorrowedFd<'_>, like: BorrowedFd<'_>, shown: &Path) -> Result<()> {
    let failed = |step| move |errno| KernelError::failed(step, text(shown), errno);
    let seen = rustix::fs::fstat(like).map_err(failed(Step::Inspect))?;
    // An earlier one that a crash left: it is empty, and its owner may be wrong.
    match rustix::fs::unlinkat(place, UPPER_IN_THE_MAKING, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(failed(Step::RemoveFolder)(errno)),
    }
    rustix::fs::mkdirat(place, UPPER_IN_THE_MAKING, Mode::RWXU).map_err(failed(Step::MakeFolder))?;
    let folder = open_on_same_mount(place, UPPER_IN_THE_MAKING, FOLDER).map_err(failed(Step::OpenFolder))?;
    rustix::fs::fchown(&folder, Some(Uid::from_raw(seen.st_uid)), Some(Gid::from_raw(seen.st_gid)))
        .map_err(failed(Step::SetOwner))?;
    // After the owner: changing that may clear setgid.
    rustix::fs::fchmod(&folder, Mode::from_raw_mode(seen.st_mode & 0o7777)).map_err(failed(Step::SetMode))?;
    rustix::fs::renameat_with(place, UPPER_IN_THE_MAKING, place, UPPER, RenameFlags::NOREPLACE)
        .map_err(failed(Step::MakeFolder))
}

/// How messages name an overlay: by its layers.
fn named(lowers: &[&MountSource], top: Option<&MountSource>) -> String {
    let lowers: Vec<String> = lowers.iter().map(|lower| text(&lower.label)).collect();
    let top = top.map(|top| format!(" below {}", text(&top.label)));
    format!("{}{}", lowers.join(", "), top.unwrap_or_default())
}

/// Returns what the kernel means: it writes most of its reasons to its own log alone.
fn not_made(shown: &str, top: Option<&MountSource>, errno: Errno, said: String) -> KernelError {
    let why = match (errno, top) {
        (Errno::LOOP, _) => IN_ONE_ANOTHER,
        (Errno::BUSY, Some(_)) => "the top is in use by another overlay that is mounted; use another top",
        (Errno::STALE, Some(_)) => "the top was made over other folders; use those again, or another top",
        (Errno::INVAL | Errno::OPNOTSUPP | Errno::PERM, Some(_)) => {
            "the file system of the top can't take one (it needs extended attributes and more; an overlay, NFS and FAT do not do), or \
             a layer lies in a place that the kernel lays nothing over; use a top on ext4, XFS, btrfs or tmpfs"
        }
        (Errno::ROFS, Some(_)) => "the file system of the top is read-only; use another top",
        _ => {
            let (step, path) = (Step::MountOverlay, shown.to_owned());
            return KernelError::Failed { step, path, errno, detail: said };
        }
    };
    KernelError::LayersRefused { layers: shown.to_owned(), why, errno, said }
}
