//! The fields of `nfs`.

use core::fmt;
use core::net::IpAddr;

use volhost_plugin_sdk::prelude::*;

use crate::options::Options;

/// The source of volumes that this plugin has made.
pub(crate) const MADE: &str = "csi:nfs.volhost.io";
/// The field of that source with the same fields as `nfs`.
const ATTRIBUTES: &str = "volumeAttributes";
pub(crate) const SERVER: &str = "server";
pub(crate) const PATH: &str = "path";
const READ_ONLY: &str = "readOnly";
/// The longest host name of the DNS, in bytes.
const SERVER_BYTES: usize = 253;
/// The longest path that NFS takes, in bytes.
const PATH_BYTES: usize = 1023;

/// The source of shares that a pod or a PersistentVolume names.
const NFS: &str = "nfs";

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// A host name or an address, without brackets.
    pub(crate) server: String,
    /// The exported folder.
    pub(crate) path: String,
    /// The pod must not write to it.
    pub(crate) read_only: bool,
    pub(crate) options: Options,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        let read_only = volume.boolean(READ_ONLY)?.unwrap_or(false) || volume.read_only();
        let (server, path) = if volume.source() == NFS {
            volume.known_fields(&[SERVER, PATH, READ_ONLY])?;
            (SERVER.to_owned(), PATH.to_owned())
        } else {
            volume.known_fields(&["driver", "volumeHandle", "fsType", READ_ONLY, ATTRIBUTES])?;
            volume.known_fields_at(ATTRIBUTES, &[SERVER, PATH])?;
            (format!("{ATTRIBUTES}.{SERVER}"), format!("{ATTRIBUTES}.{PATH}"))
        };
        let (server, path) = (read_server(volume, &server)?, read_path(volume, &path)?);
        Ok(Self { server, path, read_only, options: Options::read(volume)? })
    }
}

impl fmt::Display for Source {
    /// As the mount table shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.server.contains(':') {
            write!(f, "[{}]:{}", self.server, self.path)
        } else {
            write!(f, "{}:{}", self.server, self.path)
        }
    }
}

fn read_server(volume: &Volume, field: &str) -> Result<String> {
    // An address is never a number, and a name of digits alone is a mistake.
    if volume.kind(field).is_some_and(|kind| kind != FieldKind::Text) {
        return Err(volume.invalid(field, "must be a text"));
    }
    checked_server(&volume.required(field)?).map_err(|why| volume.invalid(field, why))
}

fn read_path(volume: &Volume, field: &str) -> Result<String> {
    checked_path(&volume.absolute_path(field)?).map_err(|why| volume.invalid(field, why))
}

/// Returns a server without the brackets around an IPv6 address.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn checked_server(written: &str) -> core::result::Result<String, String> {
    let bare = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(written);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_name = bare == written && !bare.is_empty() && bare.chars().all(plain) && !bare.starts_with(['-', '.']);
    let is_address = bare.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6() || bare == written);
    if bare.len() <= SERVER_BYTES && (is_name || is_address) {
        return Ok(bare.to_owned());
    }
    Err(format!("{} must be a host name or an address", quoted(written)))
}

/// Returns a path on a server.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn checked_path(path: &str) -> core::result::Result<String, String> {
    let why = if !path.starts_with('/') {
        "must be an absolute path"
    } else if path.split('/').any(|name| name == "..") {
        "must not contain \"..\""
    } else if path.chars().any(char::is_control) {
        "has a control character"
    } else if path.len() > PATH_BYTES {
        "is longer than 1023 bytes"
    } else {
        return Ok(path.to_owned());
    };
    Err(format!("{} {why}", quoted(path)))
}
