//! The types that are mounted over the network, with the options that callers may set. The kernel
//! checks the values.
//!
//! Options that name an address are not among them: a caller could reach another server by them.

/// The type of NFS, every version.
pub(crate) const NFS: &str = "nfs";
/// The type of SMB, which Windows and Samba speak, every version.
pub(crate) const CIFS: &str = "cifs";

/// A type that is mounted over the network.
#[derive(Debug)]
pub(crate) struct ShareType {
    /// Its name, as mount(8) has it.
    pub(crate) name: &'static str,
    /// The name of the protocol, for messages.
    pub(crate) protocol: &'static str,
    /// The options that callers may set, in order.
    pub(crate) options: &'static [&'static str],
    /// Those whose values come from secrets alone.
    pub(crate) secrets: &'static [&'static str],
}

static TYPES: [ShareType; 2] = [
    ShareType { name: NFS, protocol: "NFS", options: &NFS_OPTIONS, secrets: &[] },
    ShareType { name: CIFS, protocol: "SMB", options: &CIFS_OPTIONS, secrets: &["domain", "password", "username"] },
];

/// The type of this name.
pub(crate) fn of(name: &str) -> Option<&'static ShareType> {
    TYPES.iter().find(|of| of.name == name)
}

/// The names of all types, for messages.
pub(crate) fn known() -> String {
    TYPES.iter().map(|of| of.name).collect::<Vec<_>>().join(", ")
}

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

/// The options of mount.cifs(8) that concern the kernel. Those that lead to another server or
/// address, take credentials from elsewhere, or need a program on the node are left out:
/// `multichannel`, `witness`, `multiuser`, `cruid`, `srcaddr`, `unc`, `prefixpath`.
const CIFS_OPTIONS: [&str; 70] = [
    "acdirmax",
    "acl",
    "acregmax",
    "actimeo",
    "brl",
    "bsize",
    "cache",
    "cifsacl",
    "closetimeo",
    "dir_mode",
    "dynperm",
    "echo_interval",
    "esize",
    "file_mode",
    "forcegid",
    "forceuid",
    "fsc",
    "gid",
    "handlecache",
    "handletimeout",
    "hard",
    "idsfromsid",
    "iocharset",
    "locallease",
    "mapchars",
    "mapposix",
    "max_credits",
    "mfsymlinks",
    "min_enc_offload",
    "modefromsid",
    "noac",
    "noacl",
    "noblocksend",
    "nobrl",
    "nocase",
    "nodelete",
    "nodynperm",
    "noforcegid",
    "noforceuid",
    "nohandlecache",
    "noperm",
    "nopersistenthandles",
    "noposix",
    "noserverino",
    "nosharesock",
    "nosparse",
    "nostrictsync",
    "nouser_xattr",
    "perm",
    "persistenthandles",
    "port",
    "posix",
    "rasize",
    "resilienthandles",
    "rsize",
    "rwpidforward",
    "seal",
    "sec",
    "serverino",
    "setuids",
    "sfu",
    "sign",
    "snapshot",
    "soft",
    "strictsync",
    "tcpnodelay",
    "uid",
    "user_xattr",
    "vers",
    "wsize",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_listed_once_and_in_order() {
        for of in &TYPES {
            assert!(of.options.is_sorted_by(|a, b| a < b), "{}", of.name);
            assert!(of.secrets.iter().all(|secret| !of.options.contains(secret)), "{}", of.name);
        }
    }
}
