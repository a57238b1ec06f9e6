//! The kernel's table of loop devices: reading it, giving a free device a file, taking a file away.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::block_device::{device_of_node, in_use, open_device, open_node};
use super::ioctl::{
    LOOP_AUTOCLEAR, LOOP_READ_ONLY, LoopStatus, NOTE_BYTES, clear_loop, configure_loop, free_loop, loop_status,
    set_loop_status,
};
use super::stat::{IdKind, StatxAnswer, look_closer};
use super::syscall::{PollTarget, wait_ready};
use super::walk::{PLACE, proc_path};
use crate::block_devices::BlockDevice;
use crate::error::{DeviceError, KernelError, Result};
use crate::names::text;
use crate::step::Step;
use crate::types::DeviceNumber;

/// Where the kernel makes loop devices, and where it lists block devices.
const CONTROL: &str = "/dev/loop-control";
const LISTED: &str = "/sys/block";
/// Others that take free devices at the same moment can't go on for ever.
const MAX_RACES: usize = 64;
/// How long a loop device that was cleared may still be open to those who only look at it, and how
/// often it is looked at.
const CLOSE_GRACE: Duration = Duration::from_millis(200);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A loop device that has a file.
pub(super) struct Loop {
    pub(super) number: u32,
    pub(super) device: BlockDevice,
    pub(super) status: LoopStatus,
}

impl Loop {
    /// It shows this file from its beginning to its end.
    pub(super) fn is_whole(&self, file: &StatxAnswer) -> bool {
        shows_whole(&self.status, file)
    }

    /// It shows this device, or a part of it.
    fn shows_device(&self, number: DeviceNumber) -> bool {
        self.status.rdevice == packed((number.major, number.minor))
    }

    /// The path of its file, as the kernel shows it.
    pub(super) fn backing_path(&self) -> Option<PathBuf> {
        let path = std::fs::read(format!("{LISTED}/loop{}/loop/backing_file", self.number)).ok()?;
        let path = path.strip_suffix(b"\n").unwrap_or(&path);
        Some(PathBuf::from(OsStr::from_bytes(path)))
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.status.flags & LOOP_READ_ONLY != 0
    }
}

/// A device's number as the kernel shows it to users: minor's low byte, major, minor's rest.
fn packed((major, minor): (u32, u32)) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

fn shows_whole(status: &LoopStatus, file: &StatxAnswer) -> bool {
    let whole = (packed(file.device()), file.inode(), 0, 0);
    (status.device, status.inode, status.offset, status.size_limit) == whole
}

/// The file below a loop device, opened for reading; none for any other device, for one over a part
/// of a file, and where the file's path leads to another file by now.
pub(super) fn backing_file(number: DeviceNumber, device: &File) -> std::result::Result<Option<File>, Errno> {
    let Ok(status) = loop_status(device) else { return Ok(None) };
    let Ok(path) = std::fs::read(format!("/sys/dev/block/{number}/loop/backing_file")) else { return Ok(None) };
    let path = path.strip_suffix(b"\n").unwrap_or(&path);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { return Ok(None) };
    let seen = look_closer(&file, "", IdKind::Reused)?;
    let ours = seen.file_type() == FileType::RegularFile && shows_whole(&status, &seen);
    Ok(ours.then(|| File::from(file)))
}

/// A loop device over this device, as pods that have it as a device keep it by; none if there is
/// none.
pub(super) fn loop_over_device(device: &BlockDevice) -> Result<Option<PathBuf>> {
    let all = attached(&text(&device.path))?;
    Ok(all.into_iter().find(|one| one.shows_device(device.number)).map(|one| one.device.path))
}

/// A text as the kernel keeps it with a loop device, cut to what fits.
pub(super) fn note(text: &str) -> [u8; NOTE_BYTES] {
    let mut note = [0; NOTE_BYTES];
    // The last byte stays zero.
    for (place, byte) in note.iter_mut().take(NOTE_BYTES - 1).zip(text.bytes()) {
        *place = byte;
    }
    note
}

/// Opens a file or device for use below a loop device.
pub(super) fn open_backing(place: BorrowedFd<'_>, read_only: bool) -> std::result::Result<File, Errno> {
    let access = if read_only { OFlags::RDONLY } else { OFlags::RDWR };
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open(proc_path(place, None), flags, Mode::empty()).map(File::from)
}

fn device_path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// Every loop device that has a file, in the order of their numbers.
pub(super) fn attached(shown: &str) -> Result<Vec<Loop>> {
    attached_where(shown, |_| true)
}

/// Those whose file the kernel shows at this path.
pub(super) fn attached_over(backing: &Path, shown: &str) -> Result<Vec<Loop>> {
    attached_where(shown, |sysfs| {
        let path = std::fs::read(sysfs.join("backing_file")).unwrap_or_default();
        path.strip_suffix(b"\n").unwrap_or(&path) == backing.as_os_str().as_bytes()
    })
}

/// Those whose folder in sysfs, which is there while the device has a file, is wanted.
fn attached_where(shown: &str, wanted: impl Fn(&Path) -> bool) -> Result<Vec<Loop>> {
    let failed = |errno| KernelError::failed(Step::FindLoop, shown, errno);
    let mut numbers = Vec::new();
    let listed = std::fs::read_dir(LISTED).map_err(|error| failed(errno_of(&error)))?;
    for entry in listed {
        let name: OsString = entry.map_err(|error| failed(errno_of(&error)))?.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix("loop")).and_then(|digits| digits.parse::<u32>().ok());
        let is_wanted = |sysfs: PathBuf| sysfs.exists() && wanted(&sysfs);
        numbers.extend(number.filter(|_| is_wanted(Path::new(LISTED).join(&name).join("loop"))));
    }
    numbers.sort_unstable();
    let mut found = Vec::new();
    for number in numbers {
        match look_at(number) {
            Ok(one) => found.push(one),
            // Detached since it was listed, or not this namespace's to see.
            Err(Errno::NXIO | Errno::NODEV | Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    Ok(found)
}

fn look_at(number: u32) -> std::result::Result<Loop, Errno> {
    let path = device_path(number);
    let node = rustix::fs::open(&path, PLACE, Mode::empty())?;
    let seen = look_closer(&node, "", IdKind::Reused)?;
    if seen.file_type() != FileType::BlockDevice {
        return Err(Errno::NODEV);
    }
    let status = loop_status(open_node(node.as_fd(), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC)?)?;
    Ok(Loop { number, device: device_of_node(node, &seen, path), status })
}

/// Gives the file to a free loop device, and returns that device's path, and the device open: one
/// that goes with its last user stays as long as that. Its sectors have `sector` bytes.
pub(super) fn connect(file: &File, sector: u32, status: LoopStatus, shown: &str) -> Result<(PathBuf, OwnedFd)> {
    let failed = |errno| KernelError::failed(Step::AttachLoop, shown, errno);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let control = rustix::fs::openat(CWD, CONTROL, flags, Mode::empty()).map_err(|errno| KernelError::Failed {
        step: Step::AttachLoop,
        path: shown.to_owned(),
        errno,
        detail: format!("{CONTROL} can't be opened; the kernel's module `loop` makes it"),
    })?;
    // A device opened for reading alone is configured read-only, whatever was asked.
    let access = if status.flags & LOOP_READ_ONLY == 0 { OFlags::RDWR } else { OFlags::RDONLY };
    for _ in 0..MAX_RACES {
        let path = device_path(free_loop(&control).map_err(failed)?);
        let device = match rustix::fs::open(&path, access | OFlags::CLOEXEC, Mode::empty()) {
            Ok(device) => device,
            Err(errno) => {
                let (path, detail) = (shown.to_owned(), text(&path));
                return Err(KernelError::Failed { step: Step::AttachLoop, path, errno, detail });
            }
        };
        match configure_loop(&device, file.as_fd(), sector, status) {
            Ok(()) => return Ok((path, device)),
            // Another process was given the same number and was faster.
            Err(Errno::BUSY) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    Err(failed(Errno::BUSY))
}

/// Takes a loop device's file away, unless something uses the device; then nothing changes.
pub(super) fn release(one: &Loop, shown: &str) -> Result<()> {
    let failed = |errno| KernelError::failed(Step::DetachLoop, shown, errno);
    let again = |errno| match errno {
        Errno::NXIO | Errno::NODEV | Errno::NOENT => Ok(()),
        errno => Err(failed(errno)),
    };
    // What has it for itself would lose it when it lets go.
    match in_use(&one.device) {
        Ok(false) => {}
        Ok(true) => return Err(failed(Errno::BUSY)),
        Err(KernelError::Device(DeviceError::Gone { .. })) => return Ok(()),
        Err(error) => return Err(error),
    }
    let cleared = open_device(&one.device, Step::DetachLoop).and_then(|device| clear_loop(device).map_err(failed));
    match cleared {
        Ok(()) | Err(KernelError::Device(DeviceError::Gone { .. })) => {}
        Err(error) => return error.errno().map_or(Err(error.clone()), again),
    }
    if gone_soon(one).map_err(failed)? {
        return Ok(());
    }
    // A process has it open. Make it stay, for it would vanish while the next user has it.
    match look_at(one.number) {
        Ok(now) if now.status.note == one.status.note => {
            keep(&now).map_err(|errno| failed(Errno::BUSY).undone(Err(failed(errno))))?;
            Err(failed(Errno::BUSY))
        }
        Ok(_) => Ok(()),
        Err(errno) => again(errno),
    }
}

/// Returns whether a loop device that was cleared is gone. Its file goes when the last one closes
/// the device, and for a moment that may be one that only looks at it: another thread in search of
/// its own device, a program that was just started with a copy of our descriptor.
fn gone_soon(one: &Loop) -> std::result::Result<bool, Errno> {
    let listed = PathBuf::from(format!("{LISTED}/loop{}/loop", one.number));
    let closes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let watched = WatchFlags::CLOSE_WRITE | WatchFlags::CLOSE_NOWRITE;
    inotify::add_watch(&closes, device_path(one.number), watched)?;
    let until = Instant::now() + CLOSE_GRACE;
    while listed.exists() {
        if Instant::now() >= until {
            return Ok(false);
        }
        // A close is reported a moment before it has its effect, so the last one is looked at again
        // soon.
        wait_ready(&[PollTarget::Readable(closes.as_fd())], Some(LOOK_AGAIN))?;
        let mut events = [0; 4096];
        match rustix::io::read(&closes, &mut events) {
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

/// Makes a loop device stay when its last user closes it.
pub(super) fn keep(one: &Loop) -> std::result::Result<(), Errno> {
    if one.status.flags & LOOP_AUTOCLEAR == 0 {
        return Ok(());
    }
    let node = one.device.as_fd();
    let device = open_node(node, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC)?;
    let mut status = loop_status(&device)?;
    status.flags &= !LOOP_AUTOCLEAR;
    set_loop_status(&device, status)
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
