//! The fields of `fc`.

use volhost_plugin_sdk::prelude::*;
use volhost_plugin_sdk::{MountOptions, UnitFileSystem};

use crate::name::UnitName;

const PORTS: &str = "targetWWNs";
const LUN: &str = "lun";
const NAMES: &str = "wwids";
const FS_TYPE: &str = "fsType";
const READ_ONLY: &str = "readOnly";
const FIELDS: [&str; 5] = [PORTS, LUN, NAMES, FS_TYPE, READ_ONLY];

/// The file systems that the host can format and mount.
const FS_TYPES: &[(&str, &str)] =
    &[("ext2", "ext2"), ("ext3", "ext3"), ("ext4", "ext4"), ("xfs", "xfs"), ("btrfs", "btrfs"), ("", DEFAULT_FS)];
/// The kubelet's default.
const DEFAULT_FS: &str = "ext4";
/// The most names of a unit: one a path.
const MOST_NAMES: usize = 16;
/// The digits of a port's name.
const PORT_DIGITS: usize = 16;
/// The longest name of a unit, in bytes.
const NAME_BYTES: usize = 200;
/// The highest number of a unit, as in Kubernetes.
const LAST_LUN: i64 = 255;

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) unit: UnitName,
    /// The file system that a blank unit is formatted with, and a formatted one must contain.
    pub(crate) fs_type: &'static str,
    pub(crate) read_only: bool,
    pub(crate) options: MountOptions,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        volume.known_fields(&FIELDS)?;
        let ports = names(volume, PORTS, port_name, "must have 16 hexadecimal digits, with or without `0x`")?;
        let rule = "must begin with a letter or digit, with letters, digits, blanks, `-`, `.`, `:`, `_`, `+` and `=`";
        let own = names(volume, NAMES, unit_name, rule)?;
        let lun = lun(volume)?;
        let unit = match (ports.is_empty(), own.is_empty()) {
            (true, true) => {
                let why = format_args!("is missing: a volume needs {PORTS} and {LUN}, or {NAMES}");
                return Err(volume.invalid(PORTS, why));
            }
            (false, false) => return Err(volume.invalid(PORTS, format_args!("can't be set beside {NAMES}"))),
            (false, true) => {
                let lun = lun.ok_or_else(|| volume.invalid(LUN, format_args!("is missing, and required with {PORTS}")));
                UnitName::at_ports(ports, lun?)
            }
            // Kubernetes takes a number here, too, which then means nothing.
            (true, false) => UnitName::named(own),
        };
        let options = MountOptions::read(volume);
        let read_only = volume.boolean(READ_ONLY)?.unwrap_or(false) || volume.read_only();
        let fs_type = volume.one_of(FS_TYPE, FS_TYPES)?.unwrap_or(DEFAULT_FS);
        Ok(Self { unit, fs_type, read_only, options })
    }

    /// The unit's file system.
    pub(crate) fn file_system(&self) -> UnitFileSystem<'_> {
        UnitFileSystem {
            kind: "fc",
            unit: self.unit.to_string(),
            fs_type: self.fs_type,
            options: &self.options,
            read_only: self.read_only,
        }
    }
}

/// A list of names, in the form in which they are compared.
fn names(volume: &Volume, list: &str, check: fn(&str) -> Option<String>, rule: &str) -> Result<Vec<String>> {
    match volume.kind(list) {
        None => return Ok(Vec::new()),
        Some(FieldKind::List) => {}
        Some(_) => return Err(volume.invalid(list, "must be a list of texts")),
    }
    let mut names = Vec::new();
    for index in volume.fields_at(list) {
        let field = format!("{list}.{index}");
        let text = match volume.kind(&field) {
            Some(FieldKind::Text) => volume.short(&field)?.unwrap_or_default(),
            _ => return Err(volume.invalid(&field, "must be a text")),
        };
        let name = check(&text).ok_or_else(|| volume.invalid(&field, format_args!("{} {rule}", quoted(&text))))?;
        names.push(name);
    }
    if names.len() > MOST_NAMES {
        return Err(volume.invalid(list, format_args!("has at most {MOST_NAMES} names")));
    }
    Ok(names)
}

/// A port's name as sysfs has it, without `0x`.
fn port_name(text: &str) -> Option<String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let right = digits.len() == PORT_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    right.then(|| digits.to_ascii_lowercase())
}

/// A unit's name as udev writes it: as the kubelet does, each blank as `_`.
fn unit_name(text: &str) -> Option<String> {
    let name = text.replace(' ', "_");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:+=".contains(c);
    let right = name.len() <= NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(plain)
        && !name.contains("..");
    right.then_some(name)
}

fn lun(volume: &Volume) -> Result<Option<u32>> {
    let number = match volume.kind(LUN) {
        None => return Ok(None),
        Some(FieldKind::Number) => volume.integer(LUN)?,
        Some(_) => None,
    };
    let number = number.filter(|number| (0..=LAST_LUN).contains(number)).and_then(|number| u32::try_from(number).ok());
    let wrong = || volume.invalid(LUN, format_args!("must be a whole number from 0 to {LAST_LUN}"));
    number.map(Some).ok_or_else(wrong)
}
