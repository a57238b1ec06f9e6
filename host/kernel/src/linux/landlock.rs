//! Landlock: a thread, and what it starts, can open no more than what it names here. A kernel
//! without it is left as it is.
#![expect(unsafe_code, reason = "no safe wrapper in the libraries in use makes these three calls")]

use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::null;

use rustix::io::Errno;

use super::syscall::last_errno;

// The same numbers on every processor.
const CREATE_RULESET: libc::c_long = 444;
const ADD_RULE: libc::c_long = 445;
const RESTRICT_SELF: libc::c_long = 446;

// <linux/landlock.h>
const QUERY_VERSION: libc::c_uint = 1;
const PATH_BENEATH: libc::c_int = 1;
const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_FOLDER: u64 = 1 << 3;
const DEVICE_CALLS: u64 = 1 << 15;
/// Every right over files that a version knows: `ACCESS_FS_*`.
const FILE_RIGHTS: [(libc::c_long, u64); 4] =
    [(5, (1 << 16) - 1), (3, (1 << 15) - 1), (2, (1 << 14) - 1), (1, (1 << 13) - 1)];
/// TCP, since version 4: `ACCESS_NET_*`; other processes' sockets and signals to them, since
/// version 6: `SCOPE_*`.
const NETWORK_SINCE: libc::c_long = 4;
const SCOPE_SINCE: libc::c_long = 6;
const ALL_NETWORK: u64 = 3;
const ALL_SCOPES: u64 = 3;

/// `struct landlock_ruleset_attr`. An older kernel takes a longer one whose rest is zero.
#[repr(C)]
struct Ruleset {
    files: u64,
    network: u64,
    scopes: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: i32,
}

const _: () = assert!(size_of::<Ruleset>() == 24 && size_of::<Beneath>() == 12);

/// Lets this thread, and what it starts, read and execute what is below `readable`, read and write
/// `device`, and open nothing else; it can also mount nothing and connect to nothing. Needs
/// `no_new_privs`. A kernel that has no Landlock, or in which it is turned off, restricts nothing.
pub(super) fn restrict(readable: BorrowedFd<'_>, device: BorrowedFd<'_>) -> Result<(), Errno> {
    let Some(version) = version()? else { return Ok(()) };
    let files = FILE_RIGHTS.iter().find(|(since, _)| version >= *since).map_or(0, |(_, rights)| *rights);
    let since = |first: libc::c_long, rights: u64| if version >= first { rights } else { 0 };
    let handled = Ruleset { files, network: since(NETWORK_SINCE, ALL_NETWORK), scopes: since(SCOPE_SINCE, ALL_SCOPES) };
    let rules = create(&handled)?;
    allow(&rules, readable, (EXECUTE | READ_FILE | READ_FOLDER) & files)?;
    allow(&rules, device, (WRITE_FILE | READ_FILE | DEVICE_CALLS) & files)?;
    // SAFETY: two numbers.
    let done = unsafe { libc::syscall(RESTRICT_SELF, rules.as_raw_fd(), 0) };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

/// The version that this kernel has, none if it has none.
fn version() -> Result<Option<libc::c_long>, Errno> {
    // SAFETY: without a structure, and with this flag, the call answers a number.
    let version = unsafe { libc::syscall(CREATE_RULESET, null::<Ruleset>(), 0_usize, QUERY_VERSION) };
    if version > 0 {
        return Ok(Some(version));
    }
    match last_errno() {
        Errno::NOSYS | Errno::OPNOTSUPP => Ok(None),
        errno => Err(errno),
    }
}

fn create(rules: &Ruleset) -> Result<OwnedFd, Errno> {
    // SAFETY: the pointer is to a live structure of the size given.
    let fd = unsafe { libc::syscall(CREATE_RULESET, &raw const *rules, size_of::<Ruleset>(), 0) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(last_errno)?;
    // SAFETY: the call has just made this descriptor, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn allow(rules: &OwnedFd, what: BorrowedFd<'_>, allowed: u64) -> Result<(), Errno> {
    let rule = Beneath { allowed, parent: what.as_raw_fd() };
    // SAFETY: the pointer is to a live structure of the type that this kind of rule has.
    let done = unsafe { libc::syscall(ADD_RULE, rules.as_raw_fd(), PATH_BENEATH, &raw const rule, 0) };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}
