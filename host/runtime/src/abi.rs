//! The names of the contract: which package and version this host speaks, and what an import or
//! export is called.

use std::fmt;

/// The contract's package.
pub const PACKAGE: &str = "volhost:plugin";
/// The version of the contract that this host was built with.
pub const VERSION: Version = Version { major: 0, minor: 1, patch: 0 };
/// Where a plugin's toolchain writes what built it: `0.1.0;rust-sdk/0.1.0`. Used for messages,
/// never for trust.
pub(crate) const SDK_SECTION: &str = "volhost:abi";

/// Interfaces that every plugin may import.
pub(crate) const OPEN_INTERFACES: &[&str] = &[
    "types",
    "volumes",
    "provisioning",
    "mounts",
    "tmpfs",
    "log",
    "events",
    "node",
    "settings",
    "devices",
    "filesystems",
];
/// Interfaces that the operator must grant.
pub(crate) const GRANTABLE_INTERFACES: &[&str] = &[
    "host-paths",
    "loop-devices",
    "image-files",
    "network-mounts",
    "share-folders",
    "iscsi-sessions",
    "fc-devices",
    "oci-images",
    "overlays",
    "pod-volumes",
    "block-devices",
    "id-maps",
    "huge-pages",
    "quotas",
    "files",
    "config-maps",
    "secrets",
    "service-account-tokens",
    "cluster-trust-bundles",
    "csi-driver-objects",
    "provisioning-calls",
    "grpc",
    "driver-mounts",
    "driver-exec",
    "fuse-servers",
];
/// Interfaces that every plugin must export.
pub(crate) const REQUIRED_EXPORTS: [&str; 2] = ["plugin", "publisher"];

/// A version of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Breaks everything.
    pub major: u64,
    /// Breaks everything while `major` is 0.
    pub minor: u64,
    /// Adds.
    pub patch: u64,
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(str::parse::<u64>);
        let version = Self { major: parts.next()?.ok()?, minor: parts.next()?.ok()?, patch: parts.next()?.ok()? };
        parts.next().is_none().then_some(version)
    }

    /// Returns whether a plugin built for `self` can be linked with this host.
    pub(crate) fn is_spoken(self) -> bool {
        self.major == VERSION.major && (self.major != 0 || self.minor == VERSION.minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// An import or export of the contract: `volhost:plugin/INTERFACE@VERSION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContractName<'a> {
    pub(crate) interface: &'a str,
    /// None when it is missing or not three numbers.
    pub(crate) version: Option<Version>,
}

impl<'a> ContractName<'a> {
    /// The parts of the name, none when it is of another package.
    pub(crate) fn parse(name: &'a str) -> Option<Self> {
        let rest = name.strip_prefix(PACKAGE)?.strip_prefix('/')?;
        let (interface, version) = rest.split_once('@').map_or((rest, None), |(i, v)| (i, Version::parse(v)));
        Some(Self { interface, version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_contract_are_distinguished_from_others() {
        let name = ContractName::parse("volhost:plugin/host-paths@0.1.7").unwrap();
        assert_eq!((name.interface, name.version.unwrap().patch), ("host-paths", 7));
        assert!(ContractName::parse("wasi:cli/stdin@0.2.6").is_none());
        assert!(ContractName::parse("volhost:plugin-x/types@0.1.0").is_none());
        assert_eq!(ContractName::parse("volhost:plugin/types@0.1.0-draft").unwrap().version, None);
    }

    #[test]
    fn the_reference_page_names_the_grant_of_each_interface() {
        use crate::grants::GrantPolicy;
        for open in OPEN_INTERFACES {
            assert_eq!(volhost_wit::grants::line(open), None);
        }
        let name = volhost_model::PluginName::new("acme.org/a").unwrap();
        for interface in GRANTABLE_INTERFACES {
            let line = volhost_wit::grants::line(interface).unwrap();
            let policy: GrantPolicy = toml::from_str(&format!("[\"acme.org/a\"]\n{line}\n")).unwrap();
            assert_eq!(policy.granted_to(&name), [*interface], "{line}");
        }
    }

    #[test]
    fn a_version_is_spoken_within_its_minor_line() {
        for (text, spoken) in [("0.1.0", true), ("0.1.9", true), ("0.2.0", false), ("0.9.0", false), ("1.1.0", false)] {
            assert_eq!(Version::parse(text).unwrap().is_spoken(), spoken, "{text}");
        }
    }
}
