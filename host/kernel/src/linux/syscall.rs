//! System calls that no safe wrapper has yet. One function a call; descriptors are borrowed, sizes are checked here.
#![expect(unsafe_code, reason = "the only place of the workspace that makes raw system calls")]

use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// `struct mnt_id_req`, as far as version 0 knows it.
#[repr(C)]
struct MountIdRequest {
    size: u32,
    spare: u32,
    mount: u64,
    param: u64,
}

// Newer than the C library's tables on some architectures; the number is the same on all that volhost runs on.
const SYS_STATMOUNT: libc::c_long = 457;
const SYS_LISTMOUNT: libc::c_long = 458;

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Sets and clears per-mount attributes (`MOUNT_ATTR_*`) of the mount that `fd` is the root of, or its propagation (`MS_*`, 0: as is).
pub(super) fn mount_setattr(
    fd: BorrowedFd<'_>,
    recursive: bool,
    set: u64,
    clear: u64,
    propagation: u64,
) -> Result<(), Errno> {
    let attr = libc::mount_attr { attr_set: set, attr_clr: clear, propagation, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a NUL-terminated literal, `attr` lives over the call and the size given is its own.
    let done = unsafe {
        libc::syscall(libc::SYS_mount_setattr, fd.as_raw_fd(), c"".as_ptr(), flags, &raw const attr, size_of_val(&attr))
    };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Fills `ids` with the ids of mounts below `mount` that are greater than `after`, in order; returns how many.
pub(super) fn listmount(mount: u64, after: u64, ids: &mut [u64]) -> Result<usize, Errno> {
    let request = request(mount, after);
    // SAFETY: both pointers are to live memory of the sizes given; the kernel writes at most `ids.len()` numbers.
    let count = unsafe { libc::syscall(SYS_LISTMOUNT, &raw const request, ids.as_mut_ptr(), ids.len(), 0) };
    usize::try_from(count).map_err(|_| last_errno())
}

/// Fills `buffer` with a `struct statmount` and its strings, as far as `mask` asks. `OVERFLOW` if it is too small.
pub(super) fn statmount(mount: u64, mask: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    let request = request(mount, mask);
    // SAFETY: both pointers are to live memory of the sizes given; the kernel writes at most `buffer.len()` bytes.
    let done = unsafe { libc::syscall(SYS_STATMOUNT, &raw const request, buffer.as_mut_ptr(), buffer.len(), 0) };
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

/// The machine's memory in bytes.
pub(super) fn total_memory() -> Result<u64, Errno> {
    // SAFETY: `sysinfo` is plain numbers, for which zero is a value.
    let mut info: libc::sysinfo = unsafe { zeroed() };
    // SAFETY: the pointer is to a live structure of the type the call fills.
    let done = unsafe { libc::sysinfo(&raw mut info) };
    if done == 0 { Ok(info.totalram.saturating_mul(u64::from(info.mem_unit))) } else { Err(last_errno()) }
}
