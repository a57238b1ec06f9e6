//! The fields of a `csi` source of the driver `cifs.volhost.io`.

use core::net::IpAddr;

use volhost_plugin_sdk::prelude::*;

use crate::options::Options;

const ATTRIBUTES: &str = "volumeAttributes";
pub(crate) const SOURCE: &str = "volumeAttributes.source";
pub(crate) const FOLDER: &str = "volumeAttributes.subDir";
/// The fields that can name the secret.
const SECRETS: [&str; 2] = ["nodeStageSecretRef", "nodePublishSecretRef"];
const READ_ONLY: &str = "readOnly";
/// The longest host name of the DNS, in bytes.
const SERVER_BYTES: usize = 253;
/// The longest path that the host takes, in bytes.
const PATH_BYTES: usize = 1023;

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// A host name or an address, without brackets.
    pub(crate) server: String,
    /// The share, and perhaps a folder of it: `/SHARE/FOLDER`.
    pub(crate) path: String,
    /// The field that names the secret; none for a guest.
    pub(crate) secret: Option<&'static str>,
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
        let [stage, publish] = SECRETS;
        volume.known_fields(&["driver", "volumeHandle", "fsType", READ_ONLY, ATTRIBUTES, stage, publish])?;
        volume.known_fields_at(ATTRIBUTES, &["source", "subDir"])?;
        let options = Options::read(volume)?;
        let secret = secret(volume, options.is_guest)?;
        let (server, mut path) = share(volume)?;
        if let Some(folder) = volume.short(FOLDER)? {
            let folder = folder.trim_matches('/');
            checked_names(folder).map_err(|why| volume.invalid(FOLDER, format_args!("{} {why}", quoted(folder))))?;
            path = format!("{path}/{folder}");
        }
        if path.len() > PATH_BYTES {
            return Err(volume.invalid(SOURCE, format_args!("the path is longer than {PATH_BYTES} bytes")));
        }
        let read_only = volume.boolean(READ_ONLY)?.unwrap_or(false) || volume.read_only();
        Ok(Self { server, path, secret, read_only, options })
    }
}

/// The field that names the secret.
fn secret(volume: &Volume, is_guest: bool) -> Result<Option<&'static str>> {
    let mut found = None;
    for field in SECRETS {
        match volume.kind(field) {
            Some(FieldKind::Map) => {}
            Some(_) => return Err(volume.invalid(field, "must be a map with `name`")),
            None => continue,
        }
        volume.known_fields_at(field, &["name", "namespace"])?;
        volume.required(&format!("{field}.name"))?;
        if let Some(other) = found.replace(field) {
            return Err(volume.invalid(field, format_args!("and {other} both name a secret; remove one")));
        }
    }
    match found {
        None if !is_guest => {
            let [field, _] = SECRETS;
            Err(volume.invalid(
                field,
                "is missing: it names the secret with user name and password; or use the mount option `guest`",
            ))
        }
        Some(field) if is_guest => Err(volume.invalid(field, "and the mount option `guest` exclude each other")),
        found => Ok(found),
    }
}

/// Server and share of `//SERVER/SHARE`.
fn share(volume: &Volume) -> Result<(String, String)> {
    let written = volume.required(SOURCE)?;
    let wrong = |why: &str| volume.invalid(SOURCE, format_args!("{} {why}", quoted(&written)));
    let (server, path) = written
        .strip_prefix("//")
        .and_then(|rest| rest.split_once('/'))
        .ok_or_else(|| wrong("must be //SERVER/SHARE"))?;
    let server = checked_server(server).ok_or_else(|| wrong("must begin with the name or address of a server"))?;
    let path = path.trim_end_matches('/');
    checked_names(path).map_err(&wrong)?;
    Ok((server, format!("/{path}")))
}

/// A server without the brackets around an IPv6 address.
fn checked_server(written: &str) -> Option<String> {
    let bare = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(written);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_name = bare == written && !bare.is_empty() && bare.chars().all(plain) && !bare.starts_with(['-', '.']);
    let is_address = bare.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6() || bare == written);
    (bare.len() <= SERVER_BYTES && (is_name || is_address)).then(|| bare.to_owned())
}

/// What is wrong with names that have single slashes between them.
fn checked_names(names: &str) -> core::result::Result<(), &'static str> {
    if names.split('/').any(str::is_empty) {
        Err("must have names with single slashes between them")
    } else if names.split('/').any(|name| name == ".." || name == ".") {
        Err("must not contain \"..\" or \".\"")
    } else if names.contains('\\') {
        Err("has a backslash; write /")
    } else if names.chars().any(char::is_control) {
        Err("has a control character")
    } else {
        Ok(())
    }
}
