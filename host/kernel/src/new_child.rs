//! A child process to be made.

use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;

/// A child process to make: it works in `/`, with no signal blocked.
#[derive(Debug, Clone, Copy)]
pub struct NewChild<'a> {
    /// The program, by absolute path.
    pub program: &'a CStr,
    /// Its arguments; the first is the program's name to itself.
    pub arguments: &'a [CString],
    /// Its environment, `NAME=value` each.
    pub environment: &'a [CString],
    /// Its input, output and error output.
    pub stdio: [BorrowedFd<'a>; 3],
    /// Its other descriptors, from 3 on.
    pub inherited: &'a [BorrowedFd<'a>],
    /// It leads a process group of its own.
    pub own_group: bool,
}
