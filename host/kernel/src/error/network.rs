//! Errors of file systems that servers export.

use std::net::IpAddr;

use rustix::io::Errno;
use thiserror::Error;

use super::kind::{ErrorKind, kind_of};
use super::text::{said_suffix, words};

/// Why a share was not mounted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The server's name leads to no address.
    #[error("looking up the server {server:?}: {why}")]
    Unresolved {
        /// The name.
        server: String,
        /// The resolver's words.
        why: String,
    },
    /// The server takes no connection.
    #[error("the server of {share} can't be reached at {address}, port {port}: {}; {}", words(*.errno), way_out(*.errno))]
    Unreachable {
        /// The share.
        share: String,
        /// The address that was tried last.
        address: IpAddr,
        /// The port.
        port: u16,
        /// The answer.
        errno: Errno,
    },
    /// The server takes connections, and does not answer on them.
    #[error("the server of {share} at {address}, port {port}, takes connections and gives no answer of {protocol}: {}; it may be overloaded, its disk may hang, or another program has the port", words(*.errno))]
    Silent {
        /// The share.
        share: String,
        /// The address.
        address: IpAddr,
        /// The port.
        port: u16,
        /// The protocol: `NFS`, `SMB`.
        protocol: &'static str,
        /// What came instead.
        errno: Errno,
    },
    /// The server or the kernel does not mount it.
    #[error("mounting {share} from {address}: {why}: {}{}", words(*.errno), said_suffix(.said))]
    Refused {
        /// The share.
        share: String,
        /// The server's address.
        address: IpAddr,
        /// What the kernel's answer means, and the way out.
        why: &'static str,
        /// The kernel's answer.
        errno: Errno,
        /// What else the kernel said.
        said: String,
    },
    /// Not a type that the host mounts over the network.
    #[error("no file system of type {fs_type:?} is mounted over the network; there is {known}")]
    UnknownType {
        /// The type.
        fs_type: String,
        /// The types there are.
        known: String,
    },
}

/// What to look at when a server can't be reached.
const fn way_out(errno: Errno) -> &'static str {
    match errno {
        Errno::CONNREFUSED => "no server listens there: is it running, and is the port right?",
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN => "this node has no way to it",
        _ => "is the server up, and does a firewall drop its packets?",
    }
}

impl NetworkError {
    pub(super) const fn kind(&self) -> ErrorKind {
        match self {
            Self::Unresolved { .. } | Self::Unreachable { .. } | Self::Silent { .. } => ErrorKind::Unreachable,
            Self::Refused { errno, .. } => kind_of(*errno),
            Self::UnknownType { .. } => ErrorKind::Unsupported,
        }
    }

    pub(super) const fn errno(&self) -> Option<Errno> {
        match self {
            Self::Unreachable { errno, .. } | Self::Silent { errno, .. } | Self::Refused { errno, .. } => Some(*errno),
            Self::Unresolved { .. } | Self::UnknownType { .. } => None,
        }
    }
}
