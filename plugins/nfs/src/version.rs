//! Versions of NFS.

use core::fmt;

use volhost_plugin_sdk::prelude::*;

/// A version that Linux mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// 4.2.
    V42,
    /// 4.1.
    V41,
    /// 4.0.
    V40,
    /// 3.
    V3,
}

/// Those of version 4.
const FOUR: &[Version] = &[Version::V42, Version::V41, Version::V40];

impl Version {
    /// All, the newest first: the order in which they are tried.
    pub(crate) const ALL: &[Self] = &[Self::V42, Self::V41, Self::V40, Self::V3];

    /// The kernel's word for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::V42 => "4.2",
            Self::V41 => "4.1",
            Self::V40 => "4.0",
            Self::V3 => "3",
        }
    }

    /// The versions to try, for what the options say: `vers` and `minorversion`.
    ///
    /// # Errors
    /// `invalid-argument` naming the option.
    pub(crate) fn asked(version: Option<&str>, minor: Option<&str>) -> Result<Vec<Self>> {
        let wrong = |what: &str, value: &str, why: &str| {
            Err(Error::invalid_argument(format!("spec.mountOptions: {what}={} {why}", quoted(value))))
        };
        let versions = match (version, minor) {
            (None, None) => Self::ALL,
            (Some("4"), None) => FOUR,
            (Some("4.2"), None) | (Some("4"), Some("2")) => &[Self::V42],
            (Some("4.1"), None) | (Some("4"), Some("1")) => &[Self::V41],
            (Some("4.0"), None) | (Some("4"), Some("0")) => &[Self::V40],
            (Some("3"), None) => &[Self::V3],
            (Some("2"), _) => return wrong("vers", "2", "is no longer in Linux; there are 3, 4, 4.0, 4.1 and 4.2"),
            (_, Some(minor)) => return wrong("minorversion", minor, "goes with vers=4, and is 0, 1 or 2"),
            (Some(other), None) => return wrong("vers", other, "is not known; there are 3, 4, 4.0, 4.1 and 4.2"),
        };
        Ok(versions.to_vec())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
