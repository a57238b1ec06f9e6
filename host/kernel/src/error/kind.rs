//! What a caller can do about an error.

use rustix::io::Errno;

/// The kinds of errors by what a caller can do, coarse enough to map to a plugin's error cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request itself is wrong; repeating it can't help.
    InvalidArgument,
    /// What was asked for does not exist.
    NotFound,
    /// Something else is there: a mount, a file of another type, a folder that is not empty.
    Conflict,
    /// Something uses it; it may be free later.
    Busy,
    /// Not allowed: by the grant, or by the kernel.
    PermissionDenied,
    /// This kernel or file system can't do it.
    Unsupported,
    /// The file system is full.
    NoSpace,
    /// The machine is short of handles or memory at the moment.
    Exhausted,
    /// A server on the network does not answer; it may later.
    Unreachable,
    /// Anything else that the kernel or a device reported.
    Io,
}

/// The meaning of an errno to the caller.
pub(super) const fn kind_of(errno: Errno) -> ErrorKind {
    match errno {
        Errno::NOENT => ErrorKind::NotFound,
        Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP => ErrorKind::Conflict,
        Errno::BUSY | Errno::AGAIN | Errno::TXTBSY => ErrorKind::Busy,
        Errno::PERM | Errno::ACCESS | Errno::ROFS | Errno::XDEV => ErrorKind::PermissionDenied,
        Errno::INVAL | Errno::NAMETOOLONG | Errno::RANGE => ErrorKind::InvalidArgument,
        Errno::NOSYS | Errno::OPNOTSUPP | Errno::NODEV | Errno::PROTONOSUPPORT => ErrorKind::Unsupported,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => ErrorKind::NoSpace,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => ErrorKind::Exhausted,
        errno if is_of_the_network(errno) => ErrorKind::Unreachable,
        _ => ErrorKind::Io,
    }
}

/// Answers of the network, or none: they may pass.
const fn is_of_the_network(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::CONNREFUSED
            | Errno::TIMEDOUT
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::NETDOWN
            | Errno::CONNRESET
            | Errno::CONNABORTED
            | Errno::NOTCONN
            | Errno::PIPE
    )
}
