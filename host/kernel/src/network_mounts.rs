//! File systems that a server exports over the network.

use std::fmt;
use std::net::IpAddr;

use crate::error::{KernelError, NetworkError, Result};
use crate::handle::{DetachedMount, Directory};
use crate::types::FsOption;

/// The longest name of a server, in bytes: the longest host name of the DNS.
const SERVER_BYTES: usize = 253;
/// The longest path on a server, in bytes: NFS takes 1024 with the end.
const PATH_BYTES: usize = 1023;
/// The longest value of an option, in bytes.
const VALUE_BYTES: usize = 255;

/// The types that are mounted over the network, with the options that callers may set. The kernel
/// checks the values. Options that name an address are not among them: a caller could reach another
/// server by them.
const TYPES: [(&str, &[&str]); 1] = [("nfs", &NFS_OPTIONS)];

/// The options of nfs(5) that concern the kernel.
const NFS_OPTIONS: [&str; 56] = [
    "ac",
    "acdirmax",
    "acdirmin",
    "acl",
    "acregmax",
    "acregmin",
    "actimeo",
    "bsize",
    "cto",
    "fsc",
    "hard",
    "intr",
    "local_lock",
    "lock",
    "lookupcache",
    "max_connect",
    "migration",
    "minorversion",
    "mountport",
    "mountproto",
    "mountvers",
    "namlen",
    "nconnect",
    "nfsvers",
    "noac",
    "noacl",
    "nocto",
    "nofsc",
    "nointr",
    "nolock",
    "nomigration",
    "nordirplus",
    "noresvport",
    "nosharecache",
    "nosoftreval",
    "port",
    "proto",
    "rdirplus",
    "rdma",
    "resvport",
    "retrans",
    "rsize",
    "sec",
    "sharecache",
    "soft",
    "softerr",
    "softreval",
    "sync",
    "tcp",
    "timeo",
    "trunkdiscovery",
    "udp",
    "vers",
    "write",
    "wsize",
    "xprtsec",
];

/// A folder that a server exports.
#[derive(Debug, Clone, Copy)]
pub struct Share<'a> {
    /// The type of file system: `nfs`.
    pub fs_type: &'a str,
    /// The server: a host name or an address, as messages and the mount table show it.
    pub server: &'a str,
    /// The exported folder: an absolute path on the server.
    pub path: &'a str,
}

impl fmt::Display for Share<'_> {
    /// As the mount table shows it: `nas:/export`, `[2001:db8::1]:/export`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.server.contains(':') {
            write!(f, "[{}]:{}", self.server, self.path)
        } else {
            write!(f, "{}:{}", self.server, self.path)
        }
    }
}

/// Primitives over file systems that servers export.
pub trait NetworkMounts {
    /// The addresses of a server, in the order in which to try them. An address is its own. Asks
    /// the machine's resolver, which may ask a DNS server and takes seconds if that is silent.
    ///
    /// # Errors
    /// `InvalidPath` if it is no host name and no address; `NetworkError::Unresolved`.
    fn server_addresses(&self, server: &str) -> Result<Vec<IpAddr>>;

    /// A mount of the share, unseen until attached, from the first of the server's `addresses` that
    /// answers. Per-mount options, `ro` among them, are for [`crate::Kernel::set_options`]. Mounts
    /// of one share with the same options share their connection and their cache.
    ///
    /// Where TCP is used, each address has ten seconds to take a connection, and as long to answer
    /// on it. A server that goes silent after that keeps the caller for as long as the kernel
    /// waits: minutes.
    ///
    /// # Errors
    /// `NetworkError::UnknownType`; `InvalidPath`; `InvalidOption` for an option that is not of the
    /// type, that the kernel refuses, or that names an address; `UnsupportedOption`;
    /// `NetworkError::Unreachable`; `NetworkError::Silent`; `NetworkError::Refused` with what the
    /// kernel's answer means, of the kind `Unsupported` if the server does not speak the version;
    /// `Failed`.
    fn mount_share(&self, share: &Share<'_>, addresses: &[IpAddr], options: &[FsOption]) -> Result<DetachedMount>;

    /// The root folder of a mounted share. Its label is the share's, so messages name a folder as
    /// `nas:/export/FOLDER`. It keeps the mount busy: drop it with the call that needed it.
    ///
    /// # Errors
    /// `WrongType` for a mount that shows no share; `Failed`.
    fn share_root(&self, mount: &DetachedMount) -> Result<Directory>;
}

/// Refuses a name that no server has.
pub fn check_server(server: &str) -> Result<()> {
    let wrong = |rule| Err(KernelError::InvalidPath { path: server.chars().take(SERVER_BYTES).collect(), rule });
    if server.is_empty() || server.len() > SERVER_BYTES {
        return wrong("a server's name has 1 to 253 bytes");
    }
    // An IPv6 address has colons, a name has none.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if server.parse::<IpAddr>().is_err() && (!server.chars().all(plain) || server.starts_with(['-', '.'])) {
        return wrong("a server is a host name, or an address without brackets");
    }
    Ok(())
}

/// Refuses shares and options that no mount can have. The same for every kernel.
pub fn check_share(share: &Share<'_>, options: &[FsOption]) -> Result<()> {
    let Some((_, known)) = TYPES.iter().find(|(name, _)| *name == share.fs_type) else {
        let known: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
        let (fs_type, known) = (share.fs_type.to_owned(), known.join(", "));
        return Err(KernelError::Network(NetworkError::UnknownType { fs_type, known }));
    };
    check_server(share.server)?;
    let path = share.path;
    let rule = if !path.starts_with('/') {
        "a path on a server is absolute"
    } else if path.len() > PATH_BYTES {
        "a path on a server has at most 1023 bytes"
    } else if path.split('/').any(|name| name == "..") {
        "a path on a server has no `..`"
    } else if path.chars().any(char::is_control) {
        "a path on a server has no control characters"
    } else {
        return options.iter().try_for_each(|option| check_option(share.fs_type, known, option));
    };
    Err(KernelError::InvalidPath { path: path.chars().take(PATH_BYTES).collect(), rule })
}

fn check_option(fs_type: &str, known: &[&str], option: &FsOption) -> Result<()> {
    let value = option.value.as_deref().unwrap_or_default();
    let reason = if !known.contains(&option.key.as_str()) {
        "no such option, or not one for a volume to set"
    } else if value.len() > VALUE_BYTES {
        "its value is longer than 255 bytes"
    } else if value.contains(|c: char| c == ',' || c.is_control() || c.is_whitespace()) {
        "its value has a comma, a blank or a control character"
    } else {
        return Ok(());
    };
    let shown = option.key.chars().take(VALUE_BYTES).collect();
    Err(KernelError::InvalidOption { subject: fs_type.to_owned(), option: shown, reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share<'a>(server: &'a str, path: &'a str) -> Share<'a> {
        Share { fs_type: "nfs", server, path }
    }

    #[test]
    fn a_share_is_shown_as_the_mount_table_has_it() {
        assert_eq!(share("nas.example.com", "/a").to_string(), "nas.example.com:/a");
        assert_eq!(share("2001:db8::1", "/a").to_string(), "[2001:db8::1]:/a");
    }

    #[test]
    fn servers_and_paths_that_trick_are_refused() {
        for server in ["nas", "nas.example.com", "10.0.0.1", "::1", "fe80::1"] {
            check_share(&share(server, "/export/a b"), &[]).unwrap();
        }
        for server in ["", "-x", ".", "nas:/x", "a b", "nas,addr=10.0.0.2", "nas\n", "[::1]", "a/b", "::1%lo"] {
            let error = check_share(&share(server, "/"), &[]).unwrap_err();
            assert!(matches!(error, KernelError::InvalidPath { .. }), "{server:?}: {error}");
        }
        let long = "a".repeat(254);
        assert!(check_share(&share(&long, "/"), &[]).is_err());
        let long = format!("/{}", "a".repeat(1023));
        for path in ["", "a", "/a/../b", "/..", "/a\nb", "/a\0", long.as_str()] {
            let error = check_share(&share("nas", path), &[]).unwrap_err();
            assert!(matches!(error, KernelError::InvalidPath { .. }), "{path:?}: {error}");
        }
        let error = check_share(&Share { fs_type: "smb3", ..share("nas", "/") }, &[]).unwrap_err();
        assert!(error.to_string().contains("\"smb3\""), "{error}");
    }

    #[test]
    fn options_that_lead_elsewhere_or_carry_others_are_refused() {
        let check = |option| check_share(&share("nas", "/"), &[option]);
        for option in [FsOption::new("vers", "4.2"), FsOption::flag("soft"), FsOption::new("sec", "krb5p")] {
            check(option).unwrap();
        }
        for option in [
            FsOption::new("addr", "10.0.0.2"),
            FsOption::new("mountaddr", "10.0.0.2"),
            FsOption::new("mounthost", "other"),
            FsOption::new("clientaddr", "10.0.0.2"),
            FsOption::new("source", "other:/"),
            FsOption::new("context", "x"),
            FsOption::flag("ro"),
            FsOption::new("vers", "4.2,addr=10.0.0.2"),
            FsOption::new("vers", "4.2\naddr=10.0.0.2"),
            FsOption::new("timeo", "6 0"),
            FsOption::new("timeo", "6".repeat(256)),
            FsOption::flag(""),
        ] {
            let error = check(option.clone()).unwrap_err();
            assert!(matches!(error, KernelError::InvalidOption { .. }), "{option:?}: {error}");
        }
    }

    #[test]
    fn every_option_is_listed_once_and_in_order() {
        assert!(NFS_OPTIONS.is_sorted_by(|a, b| a < b));
    }
}
