//! System calls that no safe wrapper has yet. One function a call; descriptors are borrowed, sizes
//! are checked here.
#![expect(
    unsafe_code,
    reason = "with `ioctl`, `landlock`, `quotactl` and `spawn` the only place of the workspace that makes raw system calls"
)]

use std::ffi::CStr;
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;

/// `struct mnt_id_req`, as far as version 0 knows it.
#[repr(C)]
struct MountIdRequest {
    size: u32,
    spare: u32,
    mount: u64,
    param: u64,
}

// Newer than the C library's tables on some architectures; the number is the same on all that
// volhost runs on.
const SYS_STATMOUNT: libc::c_long = 457;
const SYS_LISTMOUNT: libc::c_long = 458;
const SYS_FCHMODAT2: libc::c_long = 452;
/// From linux/mount.h.
const LISTMOUNT_REVERSE: libc::c_uint = 1;

pub(super) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Sets and clears per-mount attributes (`MOUNT_ATTR_*`) of the mount that `fd` is the root of, or
/// its propagation (`MS_*`, 0: as is).
pub(super) fn mount_setattr(
    fd: BorrowedFd<'_>,
    recursive: bool,
    set: u64,
    clear: u64,
    propagation: u64,
) -> Result<(), Errno> {
    let attr = libc::mount_attr { attr_set: set, attr_clr: clear, propagation, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a NUL-terminated literal, `attr` lives over the call and the size given
    // is its own.
    let done = unsafe {
        libc::syscall(libc::SYS_mount_setattr, fd.as_raw_fd(), c"".as_ptr(), flags, &raw const attr, size_of_val(&attr))
    };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

/// The order in which mounts are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MountOrder {
    /// From the one that was created first.
    OldestFirst,
    /// From the one that was created last (Linux 6.12).
    NewestFirst,
}

/// Fills `ids` with the ids of mounts below `mount` that come after the id `after` in this order, 0
/// for the beginning; returns how many.
pub(super) fn listmount(mount: u64, after: u64, order: MountOrder, ids: &mut [u64]) -> Result<usize, Errno> {
    let request = request(mount, after);
    let flags = match order {
        MountOrder::OldestFirst => 0,
        MountOrder::NewestFirst => LISTMOUNT_REVERSE,
    };
    // SAFETY: both pointers are to live memory of the sizes given; the kernel writes at most
    // `ids.len()` numbers.
    let count = unsafe { libc::syscall(SYS_LISTMOUNT, &raw const request, ids.as_mut_ptr(), ids.len(), flags) };
    usize::try_from(count).map_err(|_| last_errno())
}

/// Fills `buffer` with a `struct statmount` and its strings, as far as `mask` asks. `OVERFLOW` if
/// it is too small.
pub(super) fn statmount(mount: u64, mask: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    let request = request(mount, mask);
    // SAFETY: both pointers are to live memory of the sizes given; the kernel writes at most
    // `buffer.len()` bytes.
    let done = unsafe { libc::syscall(SYS_STATMOUNT, &raw const request, buffer.as_mut_ptr(), buffer.len(), 0) };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Takes or gives back a lease (`F_RDLCK`, `F_UNLCK`) on an open file.
pub(super) fn set_lease(fd: BorrowedFd<'_>, lease: libc::c_int) -> Result<(), Errno> {
    // SAFETY: the command takes a number and no pointer; the descriptor is borrowed over the call.
    let done = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, lease) };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Chooses the signal that announces that another process wants to break a lease on this open file.
pub(super) fn set_lease_signal(fd: BorrowedFd<'_>, signal: libc::c_int) -> Result<(), Errno> {
    // <asm-generic/fcntl.h>; not in the C library's bindings for every target.
    const F_SETSIG: libc::c_int = 10;
    // SAFETY: the command takes a number and no pointer; the descriptor is borrowed over the call.
    let done = unsafe { libc::fcntl(fd.as_raw_fd(), F_SETSIG, signal) };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

fn request(mount: u64, param: u64) -> MountIdRequest {
    const SIZE: u32 = {
        // The kernel's MNT_ID_REQ_SIZE_VER0.
        assert!(size_of::<MountIdRequest>() == 24);
        24
    };
    MountIdRequest { size: SIZE, spare: 0, mount, param }
}

/// A descriptor to wait for.
#[derive(Debug, Clone, Copy)]
pub enum PollTarget<'a> {
    /// Until it can be read.
    Readable(BorrowedFd<'a>),
    /// Until it can be written.
    Writable(BorrowedFd<'a>),
}

/// Waits until one of the descriptors is ready, is closed at its other end, or the time is over;
/// without a time for ever. Returns true for each that is ready. The time is rounded up, so that a
/// caller who waited in vain is past its deadline.
///
/// # Errors
/// The kernel's: `INTR` after a signal.
pub fn wait_ready(awaited: &[PollTarget<'_>], at_most: Option<Duration>) -> Result<Vec<bool>, Errno> {
    const FOR_EVER: libc::c_int = -1;
    let pollfd = |awaited: &PollTarget<'_>| {
        let (fd, events) = match awaited {
            PollTarget::Readable(fd) => (fd, libc::POLLIN),
            PollTarget::Writable(fd) => (fd, libc::POLLOUT),
        };
        libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 }
    };
    let mut polled: Vec<libc::pollfd> = awaited.iter().map(pollfd).collect();
    let count = libc::nfds_t::try_from(polled.len()).map_err(|_| Errno::INVAL)?;
    let milliseconds = |time: Duration| i32::try_from(time.as_millis().saturating_add(1)).unwrap_or(i32::MAX);
    let milliseconds = at_most.map_or(FOR_EVER, milliseconds);
    // SAFETY: the pointer is to as many live `pollfd` as the count says.
    let done = unsafe { libc::poll(polled.as_mut_ptr(), count, milliseconds) };
    if done < 0 {
        return Err(last_errno());
    }
    Ok(polled.iter().map(|one| one.revents != 0).collect())
}

/// Gives the memory that this process's allocator keeps free back to the machine. Takes some
/// milliseconds, in which other threads may wait to allocate.
pub fn release_free_memory() {
    // Other C libraries keep little.
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes a number, and may be made by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The machine's memory in bytes.
pub(super) fn total_memory() -> Result<u64, Errno> {
    // SAFETY: `sysinfo` is plain numbers, for which zero is a value.
    let mut info: libc::sysinfo = unsafe { zeroed() };
    // SAFETY: the pointer is to a live structure of the type the call fills.
    let done = unsafe { libc::sysinfo(&raw mut info) };
    if done == 0 { Ok(info.totalram.saturating_mul(u64::from(info.mem_unit))) } else { Err(last_errno()) }
}

/// Sets the mode of an entry of an open folder, or with `AT_EMPTY_PATH` of what is open. Linux 6.6.
pub(super) fn fchmodat2(fd: BorrowedFd<'_>, name: &CStr, mode: u32, flags: libc::c_int) -> Result<(), Errno> {
    // SAFETY: the name is a NUL-terminated string that lives over the call.
    let done = unsafe { libc::syscall(SYS_FCHMODAT2, fd.as_raw_fd(), name.as_ptr(), mode, flags) };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Gives the mount that `fd` is the root of the id map of a user namespace.
pub(super) fn mount_set_ids(fd: BorrowedFd<'_>, namespace: BorrowedFd<'_>) -> Result<(), Errno> {
    let userns_fd = u64::try_from(namespace.as_raw_fd()).map_err(|_| Errno::BADF)?;
    let attr = libc::mount_attr { attr_set: libc::MOUNT_ATTR_IDMAP, attr_clr: 0, propagation: 0, userns_fd };
    // SAFETY: the path is a NUL-terminated literal, `attr` lives over the call and the size given
    // is its own.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attr,
            size_of_val(&attr),
        )
    };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Makes a child in a user namespace of its own that waits to be killed. It dies with the thread
/// that made it.
pub(super) fn clone_idle_in_user_namespace() -> Result<Pid, Errno> {
    const NONE: libc::c_long = 0;
    // It shares the descriptors instead of copying them, until it lets go of them: a copy would
    // keep mounts busy.
    let flags = libc::c_long::from(libc::CLONE_NEWUSER | libc::CLONE_FILES | libc::SIGCHLD);
    let parent = libc::c_long::from(rustix::process::getpid().as_raw_nonzero().get());
    // SAFETY: as `fork`: without CLONE_VM, and with no stack given, the child goes on here with a
    // copy of everything. Other threads do not exist in it, so it makes system calls only, which
    // take no lock and allocate nothing.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, NONE, NONE, NONE, NONE) };
    if pid == 0 {
        idle(parent);
    }
    i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(last_errno)
}

/// The child's whole life.
fn idle(parent: libc::c_long) -> ! {
    const NONE: libc::c_long = 0;
    const LAST: libc::c_long = libc::c_uint::MAX as libc::c_long;
    const UNSHARE: libc::c_long = libc::CLOSE_RANGE_UNSHARE as libc::c_long;
    // SAFETY: system calls with numbers only. The child leaves the shared descriptors for a table
    // of its own with none in it; if the kernel can't make one, it closes nothing.
    let made_by = unsafe {
        libc::syscall(libc::SYS_close_range, NONE, LAST, UNSHARE);
        libc::syscall(
            libc::SYS_prctl,
            libc::c_long::from(libc::PR_SET_PDEATHSIG),
            libc::c_long::from(libc::SIGKILL),
            NONE,
            NONE,
            NONE,
        );
        libc::syscall(libc::SYS_getppid)
    };
    // If the parent ended before it could be asked to take the child along, another process is the
    // parent by now.
    if made_by == parent {
        loop {
            // SAFETY: waits for a signal; every pointer is null, which means nothing to wait for,
            // for ever.
            unsafe { libc::syscall(libc::SYS_ppoll, NONE, NONE, NONE, NONE, NONE) };
        }
    }
    // SAFETY: ends this process, which is the child.
    unsafe { libc::_exit(0) }
}

/// Ends a child at once.
pub(super) fn kill(pid: Pid) {
    // SAFETY: two numbers. It fails only if the child has ended, and then there is nothing to do.
    unsafe { libc::kill(pid.as_raw_nonzero().get(), libc::SIGKILL) };
}
