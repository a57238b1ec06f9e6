//! The words of a grant, each checked when it is read.

use std::path::{Component, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use volhost_model::quantity::parse_bytes;

use super::sources::is_source;
use super::{EVERY_DRIVER, EVERY_FLEX_DRIVER};
use crate::abi::GRANTABLE_INTERFACES;
use crate::digest::is_digest;
use crate::limits::MOST_MEMORY_BYTES;

/// A page of WebAssembly's: with less no plugin can start.
const LEAST_MEMORY_BYTES: usize = 64 << 10;
/// Longer than any honest plugin computes, by far.
const MOST_CALL_TIME: Duration = Duration::from_secs(600);

/// An interface that needs a grant; any other word is refused when the configuration is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Interface(pub(super) String);

/// A folder of the host: an absolute path without `.` and `..`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "PathBuf")]
pub(super) struct Root(pub(super) PathBuf);

/// The name of a CSI driver, or `*`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct DriverName(pub(super) String);
/// A driver's name, or `*`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct FlexDriverName(pub(super) String);

/// A SHA-256 in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Digest(pub(super) String);

impl TryFrom<String> for Interface {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        if GRANTABLE_INTERFACES.contains(&name.as_str()) {
            return Ok(Self(name));
        }
        Err(format!("there is no interface {name:?} to grant; there is: {}", GRANTABLE_INTERFACES.join(", ")))
    }
}

impl TryFrom<PathBuf> for Root {
    type Error = String;
    fn try_from(path: PathBuf) -> Result<Self, String> {
        if path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_))) && path.is_absolute()
        {
            return Ok(Self(path));
        }
        Err(format!("{} is not an absolute path without `.` and `..`", path.display()))
    }
}

impl TryFrom<String> for DriverName {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        if plain || name == EVERY_DRIVER {
            return Ok(Self(name));
        }
        Err(format!("{name:?} is no CSI driver's name such as `csi.example.com`, nor `*` for all"))
    }
}

impl TryFrom<String> for FlexDriverName {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        let parts: Vec<&str> = name.split('/').collect();
        if name == EVERY_FLEX_DRIVER
            || (parts.len() <= 2 && parts.iter().all(|part| !part.is_empty() && *part != EVERY_FLEX_DRIVER))
        {
            return Ok(Self(name));
        }
        Err(format!("{name:?} is no driver's name; write vendor/driver, or {EVERY_FLEX_DRIVER} for all"))
    }
}

impl TryFrom<String> for Digest {
    type Error = String;
    fn try_from(digest: String) -> Result<Self, String> {
        if is_digest(&digest) {
            return Ok(Self(digest));
        }
        Err(format!("{digest:?} is not a SHA-256: 64 digits of lower-case hex, as sha256sum prints it"))
    }
}

/// A volume source: a field's name, with a driver where the field names one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct SourceName(pub(super) String);

impl TryFrom<String> for SourceName {
    type Error = String;
    fn try_from(source: String) -> Result<Self, String> {
        if is_source(&source) {
            return Ok(Self(source));
        }
        Err(format!("{source:?} is no volume source such as `nfs` or `csi:archive.example.com`"))
    }
}

/// The name of a file system's type, or of an option of a mount.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct MountWord(pub(super) String);

/// Linear memory of one call, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Memory(pub(super) usize);

/// How long a plugin's own code may run in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct CallTime(pub(super) Duration);

impl TryFrom<String> for MountWord {
    type Error = String;
    fn try_from(word: String) -> Result<Self, String> {
        if !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) {
            return Ok(Self(word));
        }
        Err(format!("{word:?} is no name of a file system's type such as `ext4`, nor of an option such as `noatime`"))
    }
}

impl TryFrom<String> for Memory {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let bytes = parse_bytes(&text).map_err(|error| error.to_string())?;
        match usize::try_from(bytes) {
            Ok(bytes) if (LEAST_MEMORY_BYTES..=MOST_MEMORY_BYTES).contains(&bytes) => Ok(Self(bytes)),
            _ => Err(format!(
                "{text:?} is not between {} KiB and {} MiB, which a sandbox can have",
                LEAST_MEMORY_BYTES >> 10,
                MOST_MEMORY_BYTES >> 20
            )),
        }
    }
}

impl TryFrom<String> for CallTime {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let time = number.parse::<u64>().ok().and_then(|number| match unit {
            "ms" => Some(Duration::from_millis(number)),
            "s" => Some(Duration::from_secs(number)),
            "m" => number.checked_mul(60).map(Duration::from_secs),
            _ => None,
        });
        match time {
            Some(time) if !time.is_zero() && time <= MOST_CALL_TIME => Ok(Self(time)),
            _ => Err(format!("{text:?} is no time that a call may take: write a number with ms, s or m, up to 10m")),
        }
    }
}
