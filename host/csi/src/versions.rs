//! Which versions of a driver's interface this host speaks: the kubelet's rules.

/// A version as registrars give it: `1.0.0`, `v1.2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u32, u32, u32);

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        // What follows a `-` or `+` orders nothing here.
        let numbers = text.split(['-', '+']).next()?;
        let mut parts = numbers.split('.').map(|part| part.parse().ok());
        let version = Self(parts.next()??, parts.next().unwrap_or(Some(0))?, parts.next().unwrap_or(Some(0))?);
        parts.next().is_none().then_some(version)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// The highest version that both speak: 1.x.
///
/// # Errors
/// What the driver's registrar is told.
pub(super) fn highest(supported: &[String]) -> Result<Version, String> {
    if supported.is_empty() {
        return Err("it names no version that it supports".to_owned());
    }
    let mut highest = None;
    for text in supported {
        let version = Version::parse(text).ok_or_else(|| format!("{text:?} is no version such as 1.0.0"))?;
        if version.0 == 1 {
            highest = highest.max(Some(version));
        }
    }
    highest.ok_or_else(|| {
        format!("it supports {}, and only versions from 1.0.0 up to before 2.0.0 are spoken here", supported.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(versions: &[&str]) -> Result<String, String> {
        highest(&versions.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>()).map(|v| v.to_string())
    }

    #[test]
    fn the_highest_version_below_two_counts() {
        assert_eq!(of(&["1.0.0"]).unwrap(), "1.0.0");
        assert_eq!(of(&["0.3.0", "v1.2", "1.10.1-rc1", "2.0.0"]).unwrap(), "1.10.1");
        assert!(of(&[]).unwrap_err().contains("no version"));
        assert!(of(&["0.3.0", "2.0.0"]).unwrap_err().contains("0.3.0, 2.0.0"));
        for bad in ["", "one", "1.x", "1.0.0.0", "-1"] {
            assert!(of(&["1.0.0", bad]).unwrap_err().contains(&format!("{bad:?}")), "{bad}");
        }
    }
}
