//! Which mounts there are. `listmount` and `statmount` where the kernel reports all we need (Linux
//! 6.13), else `mountinfo`.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::io::Errno;

use super::LinuxKernel;
use super::mountinfo::{parse, split_options};
use super::stat::{IdKind, look};
use super::syscall::{MountOrder, listmount, statmount};
use super::walk::path_of;
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::mount_snapshot::MountSnapshot;
use crate::names::{check_name, label, text};
use crate::options::option_names;
use crate::step::Step;
use crate::types::{MountId, MountInfo};

/// How this kernel reports mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MountInspection {
    StatMount,
    MountInfo,
}

/// The id for the root of the namespace where mounts below one are listed.
const EVERY_MOUNT: u64 = u64::MAX;
/// Ids fetched by one call: 32 KiB of them.
const IDS_PER_CALL: usize = 4096;
/// What a mount's answer usually fits into, and what it never exceeds, in bytes.
const ANSWER_START: usize = 4 * 1024;
const ANSWER_LIMIT: usize = 4 * 1024 * 1024;

// What is asked for, and the place of each answer in `struct statmount`, whose strings begin after
// its fixed part.
const SB_BASIC: u64 = 0x1;
const MNT_BASIC: u64 = 0x2;
const MNT_ROOT: u64 = 0x8;
const MNT_POINT: u64 = 0x10;
const FS_TYPE: u64 = 0x20;
const MNT_OPTS: u64 = 0x80;
const FS_SUBTYPE: u64 = 0x100;
const SB_SOURCE: u64 = 0x200;
const EVERYTHING: u64 = SB_BASIC | MNT_BASIC | MNT_ROOT | MNT_POINT | FS_TYPE | MNT_OPTS | FS_SUBTYPE | SB_SOURCE;
const AT_OPTIONS: usize = 4;
const AT_MASK: usize = 8;
const AT_SB_MAJOR: usize = 16;
const AT_SB_MINOR: usize = 20;
const AT_SB_FLAGS: usize = 32;
const AT_FS_TYPE: usize = 36;
const AT_ID: usize = 40;
const AT_PARENT: usize = 48;
const AT_ATTRIBUTES: usize = 64;
const AT_ROOT: usize = 104;
const AT_POINT: usize = 108;
const AT_SUBTYPE: usize = 120;
const AT_SOURCE: usize = 124;
const FIXED_PART: usize = 512;

/// Flags of a file system, by the names that mountinfo gives them, in its order.
const SB_READ_ONLY: u32 = 1;
const SB_FLAGS: [(u32, &str); 4] = [(1 << 4, "sync"), (1 << 7, "dirsync"), (1 << 6, "mand"), (1 << 25, "lazytime")];

impl MountInspection {
    /// Asks about the mount of `/proc`, whose source every kernel reports that reports sources.
    pub(super) fn probe() -> Self {
        let mut answer = StatmountBuffer::new();
        let complete = look(CWD, "/proc", IdKind::Unique)
            .is_ok_and(|seen| answer.ask(seen.mount_id()).is_ok_and(|()| answer.text(SB_SOURCE, AT_SOURCE).is_some()));
        if complete { Self::StatMount } else { Self::MountInfo }
    }
}

/// One mount's answer; the buffer is used again for the next.
struct StatmountBuffer {
    buffer: Vec<u8>,
}

impl StatmountBuffer {
    fn new() -> Self {
        Self { buffer: vec![0; ANSWER_START] }
    }

    fn ask(&mut self, id: u64) -> std::result::Result<(), Errno> {
        self.ask_for(EVERYTHING, id)
    }

    /// Asks for a part of what the kernel knows: each string costs it time.
    fn ask_for(&mut self, mask: u64, id: u64) -> std::result::Result<(), Errno> {
        loop {
            match statmount(id, mask, &mut self.buffer) {
                Err(Errno::OVERFLOW) if self.buffer.len() < ANSWER_LIMIT => {
                    self.buffer.resize(self.buffer.len() * 2, 0);
                }
                done => return done,
            }
        }
    }

    /// The absolute point of a mount; none if it is of another type than the wanted one.
    fn point(&mut self, id: u64, fs_type: Option<&str>) -> std::result::Result<Option<&Path>, Errno> {
        if let Some(wanted) = fs_type {
            self.ask_for(FS_TYPE | FS_SUBTYPE, id)?;
            if self.fs_type() != wanted {
                return Ok(None);
            }
        }
        self.ask_for(MNT_POINT, id)?;
        Ok(self.text(MNT_POINT, AT_POINT).map(|point| Path::new(OsStr::from_bytes(point))))
    }

    fn u32(&self, at: usize) -> u32 {
        let bytes = self.buffer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> u64 {
        let bytes = self.buffer.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    }

    /// A string, none if the kernel left it out: it is empty, or unknown to it.
    fn text(&self, wanted: u64, at: usize) -> Option<&[u8]> {
        if self.u64(AT_MASK) & wanted == 0 {
            return None;
        }
        let start = FIXED_PART.checked_add(usize::try_from(self.u32(at)).ok()?)?;
        self.buffer.get(start..)?.split(|byte| *byte == 0).next()
    }

    fn fs_type(&self) -> String {
        let fs_type = lossy(self.text(FS_TYPE, AT_FS_TYPE));
        match self.text(FS_SUBTYPE, AT_SUBTYPE) {
            Some(subtype) => format!("{fs_type}.{}", lossy(Some(subtype))),
            None => fs_type,
        }
    }

    /// The mount, with its absolute mount point; empty if that lies outside of what this process
    /// sees.
    fn mount(&self) -> MountInfo {
        let point = self.text(MNT_POINT, AT_POINT).unwrap_or_default();
        let point = PathBuf::from(OsStr::from_bytes(point));
        let fs_type = self.fs_type();
        let attributes = self.u64(AT_ATTRIBUTES);
        let sb_flags = self.u32(AT_SB_FLAGS);
        let mut options = option_names(attributes);
        let flags = SB_FLAGS.iter().filter(|(bit, _)| sb_flags & bit != 0);
        options.extend(flags.map(|(_, name)| (*name).to_owned()));
        options.extend(split_options(self.text(MNT_OPTS, AT_OPTIONS).unwrap_or_default()));
        let root = self.text(MNT_ROOT, AT_ROOT).unwrap_or(b"/");
        let source = self.text(SB_SOURCE, AT_SOURCE).unwrap_or_default();
        MountInfo {
            id: MountId(self.u64(AT_ID)),
            parent: MountId(self.u64(AT_PARENT)),
            point,
            device: (self.u32(AT_SB_MAJOR), self.u32(AT_SB_MINOR)),
            fs_type,
            source: OsString::from_vec(source.to_vec()),
            root: PathBuf::from(OsStr::from_bytes(root)),
            options,
            read_only: attributes & libc::MOUNT_ATTR_RDONLY != 0 || sb_flags & SB_READ_ONLY != 0,
        }
    }
}

fn lossy(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

/// The ids of every mount below this one that are greater than `after`, however many.
fn ids_below(mount: u64, after: u64) -> std::result::Result<Vec<u64>, Errno> {
    let mut all = Vec::new();
    let mut page = vec![0; IDS_PER_CALL];
    loop {
        let after = all.last().copied().unwrap_or(after);
        let count = listmount(mount, after, MountOrder::OldestFirst, &mut page)?;
        all.extend(page.iter().take(count));
        if count < page.len() {
            return Ok(all);
        }
    }
}

fn read_mountinfo() -> std::result::Result<Vec<MountInfo>, Errno> {
    std::fs::read("/proc/thread-self/mountinfo")
        .map(|text| parse(&text))
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

impl LinuxKernel {
    /// Every mount of this process's namespace now.
    pub(super) fn snapshot(&self) -> std::result::Result<MountSnapshot, Errno> {
        match self.inspection {
            MountInspection::StatMount => {
                let mut newest = [0];
                listmount(EVERY_MOUNT, 0, MountOrder::NewestFirst, &mut newest)?;
                let [newest] = newest;
                Ok(MountSnapshot::up_to(MountId(newest)))
            }
            MountInspection::MountInfo => Ok(MountSnapshot::of(read_mountinfo()?.into_iter().map(|mount| mount.id))),
        }
    }

    /// Every mount of this process's namespace that is none of these, by its absolute mount point.
    pub(super) fn others(&self, known: &MountSnapshot) -> std::result::Result<Vec<MountInfo>, Errno> {
        let mut found = match self.inspection {
            MountInspection::StatMount => {
                let mut ids = ids_below(EVERY_MOUNT, known.last().map_or(0, |last| last.0))?;
                ids.retain(|id| !known.contains(MountId(*id)));
                stat_all(&ids, Some)?
            }
            MountInspection::MountInfo => {
                let mut all = read_mountinfo()?;
                all.retain(|mount| !known.contains(mount.id));
                all
            }
        };
        found.sort_by_key(|mount| mount.id);
        Ok(found)
    }

    pub(super) fn mount_info_at(&self, folder: &Directory, name: &OsStr) -> Result<Option<MountInfo>> {
        check_name(name)?;
        let shown = label(&folder.label, name);
        let seen = match look(folder.as_fd(), name, self.ids()) {
            Ok(seen) if seen.is_mount_root() => seen,
            Ok(_) | Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(KernelError::failed(Step::Inspect, text(&shown), errno)),
        };
        let found = self.mount_of_id(seen.mount_id());
        let found = found.map_err(|errno| KernelError::failed(Step::ListMounts, text(&shown), errno))?;
        Ok(found.map(|mount| MountInfo { point: PathBuf::from(name), ..mount }))
    }

    /// The mount with this id, by its absolute mount point; none if it is gone.
    pub(super) fn mount_of_id(&self, id: u64) -> std::result::Result<Option<MountInfo>, Errno> {
        match self.inspection {
            MountInspection::StatMount => {
                let mut answer = StatmountBuffer::new();
                match answer.ask(id) {
                    Ok(()) => Ok(Some(answer.mount())),
                    Err(Errno::NOENT) => Ok(None),
                    Err(errno) => Err(errno),
                }
            }
            MountInspection::MountInfo => Ok(read_mountinfo()?.into_iter().find(|mount| mount.id.0 == id)),
        }
    }

    pub(super) fn mount_infos_below(&self, folder: &Directory) -> Result<Vec<MountInfo>> {
        self.below(folder.as_fd()).map_err(|errno| KernelError::failed(Step::ListMounts, text(&folder.label), errno))
    }

    pub(super) fn mount_points_below(&self, folder: &Directory, fs_type: Option<&str>) -> Result<Vec<PathBuf>> {
        let failed = |errno| KernelError::failed(Step::ListMounts, text(&folder.label), errno);
        if self.inspection == MountInspection::MountInfo {
            let mounts = self.mount_infos_below(folder)?.into_iter();
            let mounts = mounts.filter(|mount| fs_type.is_none_or(|wanted| mount.fs_type == wanted));
            return Ok(mounts.map(|mount| mount.point).collect());
        }
        let base = path_of(folder.as_fd()).map_err(failed)?;
        let seen = look(folder, "", IdKind::Unique).map_err(failed)?;
        let mut answer = StatmountBuffer::new();
        let mut points = Vec::new();
        for id in ids_below(seen.mount_id(), 0).map_err(failed)? {
            match answer.point(id, fs_type) {
                Ok(point) => points.extend(point.and_then(|point| relative_point(&base, point))),
                // Unmounted since it was listed.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(points)
    }

    pub(super) fn mount_ids_below(&self, folder: &Directory) -> Result<Option<Vec<MountId>>> {
        if self.inspection == MountInspection::MountInfo {
            return Ok(None);
        }
        let ids = look(folder, "", IdKind::Unique).and_then(|seen| ids_below(seen.mount_id(), 0));
        let ids = ids.map_err(|errno| KernelError::failed(Step::ListMounts, text(&folder.label), errno))?;
        Ok(Some(ids.into_iter().map(MountId).collect()))
    }

    /// Every mount below an open folder, by the folder's present path.
    pub(super) fn below(&self, folder: BorrowedFd<'_>) -> std::result::Result<Vec<MountInfo>, Errno> {
        let base = path_of(folder)?;
        let own = look(folder, "", self.ids())?.mount_id();
        // In a mount that is not attached nothing can be mounted, and its paths begin at its own root:
        // they must not be compared with those of this namespace.
        let mut found = match self.inspection {
            MountInspection::StatMount => match ids_below(own, 0) {
                Err(Errno::NOENT) => Vec::new(),
                ids => stat_all(&ids?, |mount| relative_to(&base, mount))?,
            },
            MountInspection::MountInfo => match read_mountinfo()? {
                mounts if mounts.iter().all(|mount| mount.id != MountId(own)) => Vec::new(),
                mounts => mounts.into_iter().filter_map(|mount| relative_to(&base, mount)).collect(),
            },
        };
        found.sort_by_key(|mount| mount.id);
        Ok(found)
    }
}

fn stat_all(ids: &[u64], keep: impl Fn(MountInfo) -> Option<MountInfo>) -> std::result::Result<Vec<MountInfo>, Errno> {
    let mut answer = StatmountBuffer::new();
    let mut found = Vec::new();
    for id in ids {
        match answer.ask(*id) {
            Ok(()) => found.extend(keep(answer.mount())),
            // Unmounted since it was listed.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(found)
}

/// A mount's point as seen from a folder, none if it is not below it.
fn relative_point(base: &Path, point: &Path) -> Option<PathBuf> {
    let point = point.strip_prefix(base).ok()?;
    (!point.as_os_str().is_empty()).then(|| point.to_owned())
}

/// The mount as seen from a folder, none if it is not below it.
fn relative_to(base: &Path, mount: MountInfo) -> Option<MountInfo> {
    let point = relative_point(base, &mount.point)?;
    Some(MountInfo { point, ..mount })
}
