//! Which versions of a driver's interface this host supports: the kubelet's rules.

use std::fmt;

use thiserror::Error;

/// A version as registrars write it: `1.0.0`, `v1.2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RegistrarVersion(u32, u32, u32);

/// Why no version can be agreed on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum VersionError {
    /// The list is empty.
    #[error("it names no version that it supports")]
    NoneNamed,
    /// One of them is no version.
    #[error("{0:?} is no version such as 1.0.0")]
    Malformed(String),
    /// None of them is supported here.
    #[error("it supports {}, and only versions from 1.0.0 up to before 2.0.0 are supported here", .0.join(", "))]
    NoneSupported(Vec<String>),
}

impl RegistrarVersion {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        // What follows a `-` or `+` does not order versions here.
        let numbers = text.split(['-', '+']).next()?;
        let mut parts = numbers.split('.').map(|part| part.parse().ok());
        let version = Self(parts.next()??, parts.next().unwrap_or(Some(0))?, parts.next().unwrap_or(Some(0))?);
        parts.next().is_none().then_some(version)
    }
}

impl fmt::Display for RegistrarVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// The highest version that both support: 1.x.
///
/// # Errors
/// [`VersionError`], which is reported to the driver's registrar.
pub(super) fn highest(supported: &[String]) -> Result<RegistrarVersion, VersionError> {
    if supported.is_empty() {
        return Err(VersionError::NoneNamed);
    }
    let mut highest = None;
    for text in supported {
        let version = RegistrarVersion::parse(text).ok_or_else(|| VersionError::Malformed(text.clone()))?;
        if version.0 == 1 {
            highest = highest.max(Some(version));
        }
    }
    highest.ok_or_else(|| VersionError::NoneSupported(supported.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(versions: &[&str]) -> Result<String, VersionError> {
        highest(&versions.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>()).map(|v| v.to_string())
    }

    #[test]
    fn the_highest_version_below_two_counts() {
        assert_eq!(of(&["1.0.0"]).unwrap(), "1.0.0");
        assert_eq!(of(&["0.3.0", "v1.2", "1.10.1-rc1", "2.0.0"]).unwrap(), "1.10.1");
        assert_eq!(of(&[]), Err(VersionError::NoneNamed));
        assert!(of(&["0.3.0", "2.0.0"]).unwrap_err().to_string().contains("0.3.0, 2.0.0"));
        for bad in ["", "one", "1.x", "1.0.0.0", "-1"] {
            assert_eq!(of(&["1.0.0", bad]), Err(VersionError::Malformed(bad.to_owned())));
        }
    }
}
