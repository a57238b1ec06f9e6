//! The fields of `iscsi`.

use volhost_plugin_sdk::files::Content;
use volhost_plugin_sdk::objects::{Keyed, Secret};
use volhost_plugin_sdk::prelude::*;
use volhost_plugin_sdk::{MountOptions, UnitFileSystem};

use crate::connection::Connection;
use crate::portal;

const PORTAL: &str = "targetPortal";
const PORTALS: &str = "portals";
const TARGET: &str = "iqn";
const LUN: &str = "lun";
const INTERFACE: &str = "iscsiInterface";
const INITIATOR: &str = "initiatorName";
const FS_TYPE: &str = "fsType";
const READ_ONLY: &str = "readOnly";
const CHAP_DISCOVERY: &str = "chapAuthDiscovery";
const CHAP_SESSION: &str = "chapAuthSession";
const SECRET: &str = "secretRef";
const FIELDS: [&str; 11] =
    [PORTAL, PORTALS, TARGET, LUN, INTERFACE, INITIATOR, FS_TYPE, READ_ONLY, CHAP_DISCOVERY, CHAP_SESSION, SECRET];

/// The file systems that the host can format and mount.
const FS_TYPES: &[(&str, &str)] =
    &[("ext2", "ext2"), ("ext3", "ext3"), ("ext4", "ext4"), ("xfs", "xfs"), ("btrfs", "btrfs"), ("", DEFAULT_FS)];
/// The kubelet's default.
const DEFAULT_FS: &str = "ext4";
const DEFAULT_INTERFACE: &str = "default";
/// The longest name of a target or initiator, in bytes: RFC 7143.
const NAME_BYTES: usize = 223;
const INTERFACE_BYTES: usize = 64;
/// The most portals of a target, `targetPortal` included.
const MOST_PORTALS: usize = 16;
/// The highest number of a unit, as in Kubernetes.
const LAST_LUN: i64 = 255;
/// How names begin.
const NAME_TYPES: [&str; 3] = ["iqn.", "eui.", "naa."];
/// The keys of the secret: of this node's name and password, and of the target's.
const NODE_KEYS: [&str; 2] = ["node.session.auth.username", "node.session.auth.password"];
const TARGET_KEYS: [&str; 2] = ["node.session.auth.username_in", "node.session.auth.password_in"];

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) connection: Connection,
    /// The file system that a blank unit is formatted with, and a formatted one must contain.
    pub(crate) fs_type: &'static str,
    pub(crate) read_only: bool,
    pub(crate) options: MountOptions,
    /// The session authenticates.
    chap: bool,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        volume.known_fields(&FIELDS)?;
        let interface = match text(volume, INTERFACE)? {
            None => DEFAULT_INTERFACE.to_owned(),
            Some(name) if is_plain(&name, INTERFACE_BYTES) => name,
            Some(name) => {
                return Err(volume.invalid(INTERFACE, format_args!("{} is no interface's name", quoted(&name))));
            }
        };
        let initiator = text(volume, INITIATOR)?.map(|name| iscsi_name(volume, INITIATOR, name)).transpose()?;
        if initiator.is_some() && interface != DEFAULT_INTERFACE {
            return Err(volume.invalid(
                INITIATOR,
                format_args!(
                    "can't be set beside {INTERFACE} {interface}; give that interface its name by `iface.initiatorname`"
                ),
            ));
        }
        let target = text(volume, TARGET)?.ok_or_else(|| volume.invalid(TARGET, "is missing, and required"))?;
        let connection = Connection {
            target: iscsi_name(volume, TARGET, target)?,
            lun: lun(volume)?,
            portals: portals(volume)?,
            interface,
            initiator,
        };
        let options = MountOptions::read(volume);
        let read_only = volume.boolean(READ_ONLY)?.unwrap_or(false) || volume.read_only();
        let fs_type = volume.one_of(FS_TYPE, FS_TYPES)?.unwrap_or(DEFAULT_FS);
        Ok(Self { connection, fs_type, read_only, options, chap: chap(volume)? })
    }

    /// Connects the unit, with the secret that the volume names.
    pub(crate) fn connect(&self, volume: &Volume) -> Result<BlockDevice> {
        let unit = self.connection.unit()?;
        if self.chap {
            let secret = Secret::of_mount(volume, SECRET).context("iscsi")?;
            let value = |key| secret.content(key);
            let [Some(name), Some(password)] = NODE_KEYS.map(value) else {
                let text = format!("iscsi.{SECRET}: the secret lacks {} or {}", NODE_KEYS[0], NODE_KEYS[1]);
                return Err(Error::precondition(text));
            };
            unit.authenticate(&name, &password);
            match TARGET_KEYS.map(value) {
                [Some(name), Some(password)] => unit.authenticate_target(&name, &password),
                [None, None] => {}
                both => {
                    let missing: [Option<&str>; 2] =
                        [key_if_missing(&both[0], TARGET_KEYS[0]), key_if_missing(&both[1], TARGET_KEYS[1])];
                    let missing: Vec<&str> = missing.into_iter().flatten().collect();
                    return Err(Error::precondition(format!(
                        "iscsi.{SECRET}: the secret lacks {}",
                        missing.join(", ")
                    )));
                }
            }
        }
        unit.connect().context("iscsi")
    }

    /// The unit's file system.
    pub(crate) fn file_system(&self) -> UnitFileSystem<'_> {
        UnitFileSystem {
            kind: "iscsi",
            unit: self.connection.to_string(),
            fs_type: self.fs_type,
            options: &self.options,
            read_only: self.read_only,
        }
    }
}

fn key_if_missing(content: &Option<Content>, key: &'static str) -> Option<&'static str> {
    content.is_none().then_some(key)
}

/// A field that is a text; none when absent or empty.
fn text(volume: &Volume, field: &str) -> Result<Option<String>> {
    match volume.kind(field) {
        None => Ok(None),
        Some(FieldKind::Text) => Ok(volume.short(field)?.filter(|text| !text.is_empty())),
        Some(_) => Err(volume.invalid(field, "must be a text")),
    }
}

/// What is one word of a path, of an argument and of a record.
fn is_plain(text: &str, most: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    text.len() <= most
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(plain)
        && !text.contains("..")
}

fn iscsi_name(volume: &Volume, field: &str, name: String) -> Result<String> {
    let rest = NAME_TYPES.iter().find_map(|begin| name.strip_prefix(begin));
    if rest.is_some_and(|rest| !rest.is_empty()) && is_plain(&name, NAME_BYTES) {
        return Ok(name);
    }
    Err(volume.invalid(
        field,
        format_args!(
            "{} must be an iSCSI name: `iqn.`, `eui.` or `naa.`, then letters, digits, `-`, `.`, `:` and `_`",
            quoted(&name)
        ),
    ))
}

fn lun(volume: &Volume) -> Result<u32> {
    let number = match volume.kind(LUN) {
        None => return Err(volume.invalid(LUN, "is missing, and required")),
        Some(FieldKind::Number) => volume.integer(LUN)?,
        Some(_) => None,
    };
    let number = number.filter(|number| (0..=LAST_LUN).contains(number)).and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| volume.invalid(LUN, format_args!("must be a whole number from 0 to {LAST_LUN}")))
}

/// Every portal once, the one of `targetPortal` first.
fn portals(volume: &Volume) -> Result<Vec<core::net::SocketAddr>> {
    let first = text(volume, PORTAL)?.ok_or_else(|| volume.invalid(PORTAL, "is missing, and required"))?;
    let mut written = vec![(PORTAL.to_owned(), first)];
    match volume.kind(PORTALS) {
        None | Some(FieldKind::List) => {}
        Some(_) => return Err(volume.invalid(PORTALS, "must be a list of texts")),
    }
    for index in volume.fields_at(PORTALS) {
        let field = format!("{PORTALS}.{index}");
        let portal = text(volume, &field)?.ok_or_else(|| volume.invalid(&field, "must not be empty"))?;
        written.push((field, portal));
    }
    let mut portals = Vec::new();
    for (field, text) in written {
        let portal = portal::parse(&text).ok_or_else(|| {
            volume.invalid(
                &field,
                format_args!("{} must be an IP address, or one with a port: `192.0.2.1:3260`", quoted(&text)),
            )
        })?;
        if !portals.contains(&portal) {
            portals.push(portal);
        }
    }
    if portals.len() > MOST_PORTALS {
        return Err(volume.invalid(PORTALS, format_args!("a target has at most {MOST_PORTALS} portals")));
    }
    Ok(portals)
}

/// Whether the session authenticates.
fn chap(volume: &Volume) -> Result<bool> {
    let session = volume.boolean(CHAP_SESSION)?.unwrap_or(false);
    let discovery = volume.boolean(CHAP_DISCOVERY)?.unwrap_or(false);
    match volume.kind(SECRET) {
        None if session || discovery => {
            return Err(volume
                .invalid(SECRET, format_args!("is missing, and required with {CHAP_SESSION} and {CHAP_DISCOVERY}")));
        }
        None => {}
        Some(FieldKind::Map) => {
            volume.known_fields_at(SECRET, &["name", "namespace"])?;
            let name = format!("{SECRET}.name");
            text(volume, &name)?.ok_or_else(|| volume.invalid(&name, "is missing, and required"))?;
            let namespace = format!("{SECRET}.namespace");
            if text(volume, &namespace)?.is_some() && volume.persistent_volume().is_none() {
                return Err(volume.invalid(
                    &namespace,
                    "can be set in a PersistentVolume alone: a pod's secret is of its own namespace",
                ));
            }
        }
        Some(_) => return Err(volume.invalid(SECRET, "must be a map with `name`")),
    }
    Ok(session)
}
