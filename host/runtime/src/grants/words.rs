//! The words of a grant, each checked when it is read.

use std::path::{Component, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;
use volhost_model::oci::Reference;
use volhost_model::quantity::{QuantityError, parse_bytes};

use crate::abi::GRANTABLE_INTERFACES;
use crate::digest::is_digest;
use crate::limits::MOST_MEMORY_BYTES;

/// The grant for every driver outside.
pub(crate) const EVERY_FLEX_DRIVER: &str = "*";
/// Stands for all drivers.
pub(super) const EVERY_DRIVER: &str = "*";

/// Stands for all registries.
pub(crate) const EVERY_REGISTRY: &str = "*";

/// A page of WebAssembly's: with less no plugin can start.
const LEAST_MEMORY_BYTES: usize = 64 << 10;
/// Longer than any honest plugin computes, by far.
const MOST_CALL_TIME: Duration = Duration::from_secs(600);

/// Why a word of a grant is refused.
#[derive(Debug, Error)]
pub(crate) enum WordError {
    #[error("there is no interface {name:?} to grant; there is: {}", GRANTABLE_INTERFACES.join(", "))]
    Interface { name: String },
    #[error("{} is not an absolute path without `.` and `..`", .0.display())]
    Path(PathBuf),
    #[error("{0:?} is no CSI driver's name such as `csi.example.com`, nor `{EVERY_DRIVER}` for all")]
    CsiDriver(String),
    #[error("{0:?} is no driver's name; write vendor/driver, or {EVERY_FLEX_DRIVER} for all")]
    FlexDriver(String),
    #[error("{0:?} is no server; write a host name, an address, a network such as 192.0.2.0/24, or * for all")]
    Server(String),
    #[error("{0:?} is no portal; write an address, a network such as 192.0.2.0/24, or * for all")]
    Portal(String),
    #[error(
        "{0:?} is no name of a Fibre Channel port (16 hexadecimal digits) or unit (a WWID as in /dev/disk/by-id, without `scsi-`), nor * for all"
    )]
    FcTarget(String),
    #[error("{0:?} is no registry; write its name or address, with :PORT if it has one of its own, or * for all")]
    Registry(String),
    #[error("{0:?} is not a SHA-256: 64 digits of lower-case hex, as sha256sum prints it")]
    Digest(String),
    #[error("{0:?} is no volume source such as `nfs` or `csi:archive.example.com`")]
    Source(String),
    #[error("{0:?} is no name of a file system's type such as `ext4`, nor of an option such as `noatime`")]
    Mount(String),
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    #[error(
        "{text:?} is not between {} KiB and {} MiB, which a sandbox can have",
        LEAST_MEMORY_BYTES >> 10,
        MOST_MEMORY_BYTES >> 20
    )]
    Memory { text: String },
    #[error("{0:?} is no time that a call may take: write a number with ms, s or m, up to 10m")]
    CallTime(String),
}

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

/// A registry as references name it, or `*`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct RegistryHost(pub(super) String);

/// A number of bytes, as a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct ByteCount(pub(super) u64);

/// A SHA-256 in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Sha256Hex(pub(super) String);

impl TryFrom<String> for Interface {
    type Error = WordError;
    fn try_from(name: String) -> Result<Self, WordError> {
        if GRANTABLE_INTERFACES.contains(&name.as_str()) {
            return Ok(Self(name));
        }
        Err(WordError::Interface { name })
    }
}

impl TryFrom<PathBuf> for Root {
    type Error = WordError;
    fn try_from(path: PathBuf) -> Result<Self, WordError> {
        if path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_))) && path.is_absolute()
        {
            return Ok(Self(path));
        }
        Err(WordError::Path(path))
    }
}

impl TryFrom<String> for DriverName {
    type Error = WordError;
    fn try_from(name: String) -> Result<Self, WordError> {
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        if plain || name == EVERY_DRIVER {
            return Ok(Self(name));
        }
        Err(WordError::CsiDriver(name))
    }
}

impl TryFrom<String> for FlexDriverName {
    type Error = WordError;
    fn try_from(name: String) -> Result<Self, WordError> {
        let parts: Vec<&str> = name.split('/').collect();
        if name == EVERY_FLEX_DRIVER
            || (parts.len() <= 2 && parts.iter().all(|part| !part.is_empty() && *part != EVERY_FLEX_DRIVER))
        {
            return Ok(Self(name));
        }
        Err(WordError::FlexDriver(name))
    }
}

impl TryFrom<String> for RegistryHost {
    type Error = WordError;
    fn try_from(host: String) -> Result<Self, WordError> {
        // A host is one if a reference with it is.
        if host == EVERY_REGISTRY || format!("{host}/name").parse::<Reference>().is_ok() {
            return Ok(Self(host));
        }
        Err(WordError::Registry(host))
    }
}

impl TryFrom<String> for ByteCount {
    type Error = WordError;
    fn try_from(text: String) -> Result<Self, WordError> {
        Ok(Self(parse_bytes(&text)?))
    }
}

impl TryFrom<String> for Sha256Hex {
    type Error = WordError;
    fn try_from(digest: String) -> Result<Self, WordError> {
        if is_digest(&digest) {
            return Ok(Self(digest));
        }
        Err(WordError::Digest(digest))
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
    type Error = WordError;
    fn try_from(word: String) -> Result<Self, WordError> {
        if !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) {
            return Ok(Self(word));
        }
        Err(WordError::Mount(word))
    }
}

impl TryFrom<String> for Memory {
    type Error = WordError;
    fn try_from(text: String) -> Result<Self, WordError> {
        match usize::try_from(parse_bytes(&text)?) {
            Ok(bytes) if (LEAST_MEMORY_BYTES..=MOST_MEMORY_BYTES).contains(&bytes) => Ok(Self(bytes)),
            _ => Err(WordError::Memory { text }),
        }
    }
}

impl TryFrom<String> for CallTime {
    type Error = WordError;
    fn try_from(text: String) -> Result<Self, WordError> {
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
            _ => Err(WordError::CallTime(text)),
        }
    }
}
