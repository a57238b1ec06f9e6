//! The fields of a `csi` source of the driver `sshfs.volhost.io`.

use core::fmt;
use core::net::IpAddr;

use volhost_plugin_sdk::prelude::*;

const ATTRIBUTES: &str = "volumeAttributes";
pub(crate) const SERVER: &str = "volumeAttributes.server";
pub(crate) const PATH: &str = "volumeAttributes.path";
pub(crate) const USER: &str = "volumeAttributes.user";
pub(crate) const PORT: &str = "volumeAttributes.port";
pub(crate) const UID: &str = "volumeAttributes.uid";
pub(crate) const GID: &str = "volumeAttributes.gid";
/// The field that names the secret.
pub(crate) const SECRET: &str = "nodePublishSecretRef";
const READ_ONLY: &str = "readOnly";
/// The longest host name of the DNS, in bytes.
const SERVER_BYTES: usize = 253;
/// The longest path of Linux, in bytes.
const PATH_BYTES: usize = 4095;
/// The longest name of a user, in bytes: that of useradd(8), with room for other systems.
const USER_BYTES: usize = 64;
/// What a path consists of beside letters and digits: the host lets nothing else into an argument.
const IN_PATHS: &str = "._-/:@+%~[]";

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) user: String,
    /// A host name or an address; one of IPv6 in brackets.
    pub(crate) server: String,
    /// An absolute path on the server.
    pub(crate) path: String,
    pub(crate) port: Option<u32>,
    /// The owner and group that every file is shown with.
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) read_only: bool,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        volume.known_fields(&["driver", "volumeHandle", READ_ONLY, ATTRIBUTES, SECRET])?;
        volume.known_fields_at(ATTRIBUTES, &["server", "path", "user", "port", "uid", "gid"])?;
        secret(volume)?;
        Ok(Self {
            user: user(volume)?,
            server: server(volume)?,
            path: path(volume)?,
            port: volume.number_in_quotes(PORT, "the number of a port", 1..=u16::MAX.into())?,
            uid: volume.user_or_group(UID, "the number of a user")?,
            gid: volume.user_or_group(GID, "the number of a group")?,
            read_only: volume.boolean(READ_ONLY)?.unwrap_or(false) || volume.read_only(),
        })
    }
}

impl fmt::Display for Source {
    /// As sshfs(1) writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.user, self.server, self.path)
    }
}

fn secret(volume: &Volume) -> Result<()> {
    match volume.kind(SECRET) {
        Some(FieldKind::Map) => {}
        Some(_) => return Err(volume.invalid(SECRET, "must be a map with `name`")),
        None => return Err(volume.invalid(SECRET, "is missing, and required: it names the secret with the key")),
    }
    volume.known_fields_at(SECRET, &["name", "namespace"])?;
    volume.required(&format!("{SECRET}.name"))?;
    Ok(())
}

fn user(volume: &Volume) -> Result<String> {
    let user = volume.required(USER)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if user.len() <= USER_BYTES && !user.starts_with(['-', '.']) && user.chars().all(plain) {
        return Ok(user);
    }
    Err(volume.invalid(USER, format_args!("{} is no name of a user", quoted(&user))))
}

fn server(volume: &Volume) -> Result<String> {
    let written = volume.required(SERVER)?;
    let bare = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&written);
    if let Ok(address) = bare.parse::<IpAddr>()
        && (address.is_ipv6() || bare == written)
    {
        return Ok(if address.is_ipv6() { format!("[{bare}]") } else { bare.to_owned() });
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if written.len() <= SERVER_BYTES && written.chars().all(plain) && !written.starts_with(['-', '.']) {
        return Ok(written);
    }
    Err(volume.invalid(SERVER, format_args!("{} must be a host name or an address", quoted(&written))))
}

fn path(volume: &Volume) -> Result<String> {
    let path = volume.absolute_path(PATH)?;
    if path.len() > PATH_BYTES {
        return Err(volume.invalid(PATH, format_args!("{} is longer than {PATH_BYTES} bytes", quoted(&path))));
    }
    match path.chars().find(|c| !c.is_alphanumeric() && !IN_PATHS.contains(*c)) {
        None => Ok(path),
        Some(other) => Err(volume
            .invalid(PATH, format_args!("{} has {other:?}; a path has letters, digits and {IN_PATHS}", quoted(&path)))),
    }
}
