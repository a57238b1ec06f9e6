//! The fields of `nfs`.

use core::fmt;
use core::net::IpAddr;

use volhost_plugin_sdk::prelude::*;

use crate::options::Options;

const SERVER: &str = "server";
const PATH: &str = "path";
const READ_ONLY: &str = "readOnly";
/// The longest host name of the DNS, in bytes.
const SERVER_BYTES: usize = 253;
/// The longest path that NFS takes, in bytes.
const PATH_BYTES: usize = 1023;

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
        volume.known_fields(&[SERVER, PATH, READ_ONLY])?;
        let read_only = volume.boolean(READ_ONLY)?.unwrap_or(false) || volume.read_only();
        Ok(Self { server: server(volume)?, path: path(volume)?, read_only, options: Options::read(volume)? })
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

fn server(volume: &Volume) -> Result<String> {
    // An address is never a number, and a name of digits alone is a mistake.
    if volume.kind(SERVER).is_some_and(|kind| kind != FieldKind::Text) {
        return Err(volume.invalid(SERVER, "must be a text"));
    }
    let written = volume.required(SERVER)?;
    let bare = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&written);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_name = bare == written && bare.chars().all(plain) && !bare.starts_with(['-', '.']);
    let is_address = bare.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6() || bare == written);
    if bare.len() <= SERVER_BYTES && (is_name || is_address) {
        return Ok(bare.to_owned());
    }
    Err(volume.invalid(SERVER, format_args!("{} must be a host name or an address", quoted(&written))))
}

fn path(volume: &Volume) -> Result<String> {
    let path = volume.absolute_path(PATH)?;
    let why = if path.chars().any(char::is_control) {
        "has a control character"
    } else if path.len() > PATH_BYTES {
        "is longer than 1023 bytes"
    } else {
        return Ok(path);
    };
    Err(volume.invalid(PATH, format_args!("{} {why}", quoted(&path))))
}
