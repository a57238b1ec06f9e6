//! File systems that a server exports over the network.

pub(crate) mod share_types;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::error::{KernelError, NetworkError, Result};
use crate::handle::{DetachedMount, Directory};
use crate::types::FsOption;
use share_types::{CIFS, ShareType};

/// The longest name of a server, in bytes: the longest host name of the DNS.
const SERVER_BYTES: usize = 253;
/// The longest path on a server, in bytes: NFS takes 1024 with the end.
const PATH_BYTES: usize = 1023;
/// The longest value of an option, in bytes.
const VALUE_BYTES: usize = 255;
/// The longest secret value of an option, in bytes: a password of CIFS has at most 512 characters.
const SECRET_BYTES: usize = 2048;
/// A folder that a server exports.
#[derive(Debug, Clone, Copy)]
pub struct Share<'a> {
    /// The type of file system: `nfs` or `cifs`.
    pub fs_type: &'a str,
    /// The server: a host name or an address, as messages and the mount table show it.
    pub server: &'a str,
    /// The exported folder: an absolute path on the server. With `cifs` its first name is the
    /// share.
    pub path: &'a str,
}

impl fmt::Display for Share<'_> {
    /// As the mount table shows it: `nas:/export`, `[2001:db8::1]:/export`, `//nas/share`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fs_type == CIFS {
            write!(f, "//{}{}", self.server, self.path)
        } else if self.server.contains(':') {
            write!(f, "[{}]:{}", self.server, self.path)
        } else {
            write!(f, "{}:{}", self.server, self.path)
        }
    }
}

/// An option whose value only the kernel may see.
#[derive(Clone)]
pub struct SecretOption {
    /// Its name.
    pub key: String,
    /// Its value: one line of text.
    pub value: Arc<[u8]>,
}

impl fmt::Debug for SecretOption {
    /// Without the value (rule R10).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretOption").field("key", &self.key).finish_non_exhaustive()
    }
}

impl SecretOption {
    /// The value without the end of its line, as files and `kubectl create secret` have one.
    ///
    /// # Errors
    /// What is wrong with it, without a part of it.
    pub fn line(&self) -> std::result::Result<&str, &'static str> {
        let text = std::str::from_utf8(&self.value).map_err(|_| "its secret value is not UTF-8")?;
        let line = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
        if line.is_empty() {
            Err("its secret value is empty")
        } else if line.len() > SECRET_BYTES {
            Err("its secret value is longer than 2048 bytes")
        } else if line.chars().any(char::is_control) {
            Err("its secret value has a control character, or more than one line")
        } else {
            Ok(line)
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
    /// The value of a secret option reaches the kernel and nothing else: no message has it, and the
    /// mount table shows no password.
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
    fn mount_share(
        &self,
        share: &Share<'_>,
        addresses: &[IpAddr],
        options: &[FsOption],
        secrets: &[SecretOption],
    ) -> Result<DetachedMount>;

    /// The root folder of a mounted share. Its label is the share's, so messages name a folder as
    /// `nas:/export/FOLDER`. It keeps the mount busy: drop it with the call that needed it.
    ///
    /// # Errors
    /// `WrongType` for a mount that shows no share of `nfs`; `Failed`.
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
pub fn check_share(share: &Share<'_>, options: &[FsOption], secrets: &[SecretOption]) -> Result<()> {
    let of = share_type(share)?;
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
    } else if of.name == CIFS && path.contains('\\') {
        // The protocol's own separator: `..` could be beside it.
        "a path of a share has no backslash"
    } else if of.name == CIFS && path.split('/').nth(1).is_none_or(str::is_empty) {
        "a path on the server begins with the share's name"
    } else {
        options.iter().try_for_each(|option| check_option(of, option))?;
        return secrets.iter().try_for_each(|secret| check_secret(of, secret));
    };
    Err(KernelError::InvalidPath { path: path.chars().take(PATH_BYTES).collect(), rule })
}

/// What is mounted as this type.
pub(crate) fn share_type(share: &Share<'_>) -> Result<&'static ShareType> {
    share_types::of(share.fs_type).ok_or_else(|| {
        let (fs_type, known) = (share.fs_type.to_owned(), share_types::known());
        KernelError::Network(NetworkError::UnknownType { fs_type, known })
    })
}

fn refused_option(of: &ShareType, key: &str, reason: &str) -> KernelError {
    let (subject, option) = (of.name.to_owned(), key.chars().take(VALUE_BYTES).collect());
    KernelError::InvalidOption { subject, option, reason: reason.to_owned() }
}

fn check_option(of: &ShareType, option: &FsOption) -> Result<()> {
    let value = option.value.as_deref().unwrap_or_default();
    let reason = if of.secrets.contains(&option.key.as_str()) {
        "its value comes from a secret alone"
    } else if !of.options.contains(&option.key.as_str()) {
        "no such option, or not one for a volume to set"
    } else if value.len() > VALUE_BYTES {
        "its value is longer than 255 bytes"
    } else if value.contains(|c: char| c == ',' || c.is_control() || c.is_whitespace()) {
        "its value has a comma, a blank or a control character"
    } else {
        return Ok(());
    };
    Err(refused_option(of, &option.key, reason))
}

fn check_secret(of: &ShareType, secret: &SecretOption) -> Result<()> {
    if !of.secrets.contains(&secret.key.as_str()) {
        return Err(refused_option(of, &secret.key, "no such option with a secret value"));
    }
    secret.line().map(|_| ()).map_err(|reason| refused_option(of, &secret.key, reason))
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
            check_share(&share(server, "/export/a b"), &[], &[]).unwrap();
        }
        for server in ["", "-x", ".", "nas:/x", "a b", "nas,addr=10.0.0.2", "nas\n", "[::1]", "a/b", "::1%lo"] {
            let error = check_share(&share(server, "/"), &[], &[]).unwrap_err();
            assert!(matches!(error, KernelError::InvalidPath { .. }), "{server:?}: {error}");
        }
        let long = "a".repeat(254);
        assert!(check_share(&share(&long, "/"), &[], &[]).is_err());
        let long = format!("/{}", "a".repeat(1023));
        for path in ["", "a", "/a/../b", "/..", "/a\nb", "/a\0", long.as_str()] {
            let error = check_share(&share("nas", path), &[], &[]).unwrap_err();
            assert!(matches!(error, KernelError::InvalidPath { .. }), "{path:?}: {error}");
        }
        let error = check_share(&Share { fs_type: "smb3", ..share("nas", "/") }, &[], &[]).unwrap_err();
        assert!(error.to_string().contains("\"smb3\""), "{error}");
    }

    #[test]
    fn options_that_lead_elsewhere_or_carry_others_are_refused() {
        let check = |option| check_share(&share("nas", "/"), &[option], &[]);
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
    fn a_share_of_cifs_begins_with_its_name_and_has_no_other_separator() {
        let cifs = |path| check_share(&Share { fs_type: "cifs", server: "nas", path }, &[], &[]);
        for path in ["/share", "/share/a b/c", "/share/"] {
            cifs(path).unwrap();
        }
        for path in ["/", "//share", "share", "/share/../x", "/share\\..\\x", "/share\n"] {
            let error = cifs(path).unwrap_err();
            assert!(matches!(error, KernelError::InvalidPath { .. }), "{path:?}: {error}");
        }
        let shown = |server| Share { fs_type: "cifs", server, path: "/share/a" }.to_string();
        assert_eq!((shown("nas"), shown("::1")), ("//nas/share/a".to_owned(), "//::1/share/a".to_owned()));
    }

    #[test]
    fn a_secret_is_one_line_for_an_option_that_takes_one_and_is_in_no_message() {
        let cifs = Share { fs_type: "cifs", server: "nas", path: "/share" };
        let secret = |key: &str, value: &str| SecretOption { key: key.to_owned(), value: value.as_bytes().into() };
        for value in ["pass", "a,b=c d", "pass\n", "pass\r\n", "pässwörd"] {
            check_share(&cifs, &[], &[secret("username", "u"), secret("password", value)]).unwrap();
        }
        assert_eq!(secret("password", "a,b\r\n").line(), Ok("a,b"));
        let long = "horse".repeat(500);
        for (key, value) in [
            ("password", ""),
            ("password", "\n"),
            ("password", "horse\nip=10.0.0.1"),
            ("password", "horse\0"),
            ("password", long.as_str()),
            ("vers", "horse"),
            ("ip", "horse"),
        ] {
            let option = secret(key, value);
            let error = check_share(&cifs, &[], std::slice::from_ref(&option)).unwrap_err();
            assert!(matches!(error, KernelError::InvalidOption { .. }), "{key}: {error}");
            assert!(!format!("{error} {error:?} {option:?}").contains("horse"), "{error:?}");
        }
        let binary = SecretOption { key: "password".to_owned(), value: vec![0xff, 0xfe].into() };
        assert!(check_share(&cifs, &[], &[binary]).is_err());
        assert!(check_share(&share("nas", "/"), &[], &[secret("password", "x")]).is_err(), "nfs takes none");
        let error = check_share(&cifs, &[FsOption::new("password", "horse")], &[]).unwrap_err();
        assert!(error.to_string().contains("secret") && !error.to_string().contains("horse"), "{error}");
    }

    #[test]
    fn options_of_cifs_that_lead_elsewhere_are_refused() {
        let cifs = Share { fs_type: "cifs", server: "nas", path: "/share" };
        for option in [FsOption::new("vers", "3.1.1"), FsOption::flag("seal"), FsOption::new("uid", "1000")] {
            check_share(&cifs, &[option], &[]).unwrap();
        }
        for key in
            ["ip", "addr", "source", "unc", "srcaddr", "multichannel", "witness", "multiuser", "cruid", "prefixpath"]
        {
            let error = check_share(&cifs, &[FsOption::new(key, "x")], &[]).unwrap_err();
            assert!(matches!(error, KernelError::InvalidOption { .. }), "{key}: {error}");
        }
    }
}
