//! Which servers a plugin may mount from.

use std::fmt;
use std::net::IpAddr;

use serde::Deserialize;
use volhost_kernel::implement::check_server;
use volhost_model::fc::{port_name, unit_name};

use super::words::WordError;

/// Stands for all servers.
const EVERY_SERVER: &str = "*";

/// A server that is granted, or several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Servers {
    /// All.
    Every,
    /// Those whose address lies in this network: an address, and how many of its bits count.
    Network(IpAddr, u8),
    /// The one of this name in lower case, whatever its addresses.
    Name(String),
}

impl TryFrom<String> for Servers {
    type Error = WordError;
    fn try_from(word: String) -> Result<Self, WordError> {
        let wrong = || WordError::Server(word.clone());
        if word == EVERY_SERVER {
            return Ok(Self::Every);
        }
        let (address, bits) = word.split_once('/').map_or((word.as_str(), None), |(a, bits)| (a, Some(bits)));
        match (address.parse::<IpAddr>(), bits) {
            (Ok(address), bits) => {
                let bits = bits.map_or(Ok(width(address)), str::parse::<u8>).map_err(|_| wrong())?;
                if bits <= width(address) { Ok(Self::Network(address, bits)) } else { Err(wrong()) }
            }
            (Err(_), None) if check_server(address).is_ok() => Ok(Self::Name(address.to_ascii_lowercase())),
            (Err(_), _) => Err(wrong()),
        }
    }
}

impl fmt::Display for Servers {
    /// As the configuration has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every => f.write_str(EVERY_SERVER),
            Self::Network(address, bits) if *bits == width(*address) => write!(f, "{address}"),
            Self::Network(address, bits) => write!(f, "{address}/{bits}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl Servers {
    /// Returns whether everything that `other` includes is one of them, as far as the words tell.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Every, _) => true,
            (Self::Network(_, bits), Self::Network(address, inner)) => bits <= inner && self.include("", *address),
            (one, other) => one == other,
        }
    }

    /// Returns whether the server of this name at this address is one of them.
    pub(crate) fn include(&self, name: &str, address: IpAddr) -> bool {
        match self {
            Self::Every => true,
            Self::Network(network, bits) => {
                let address = address.to_canonical();
                network.is_ipv4() == address.is_ipv4() && first_bits(*network, *bits) == first_bits(address, *bits)
            }
            Self::Name(granted) => granted.eq_ignore_ascii_case(name),
        }
    }
}

/// Portals of iSCSI targets that are granted: as servers, and none by name, since a portal is an
/// address.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Portals(Servers);

impl TryFrom<String> for Portals {
    type Error = WordError;
    fn try_from(word: String) -> Result<Self, WordError> {
        match Servers::try_from(word.clone()) {
            Ok(servers @ (Servers::Every | Servers::Network(..))) => Ok(Self(servers)),
            Ok(Servers::Name(_)) | Err(_) => Err(WordError::Portal(word)),
        }
    }
}

impl fmt::Display for Portals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Portals {
    /// Returns whether everything that `other` includes is one of them.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.0.covers(&other.0)
    }

    /// All.
    pub(crate) const EVERY: Self = Self(Servers::Every);

    /// Returns whether a portal at this address is one of them.
    pub(crate) fn include(&self, address: IpAddr) -> bool {
        self.0.include("", address)
    }
}

/// A name of a Fibre Channel target's port or unit that is granted, or all.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum FcTargets {
    /// All.
    Every,
    /// The port or unit of this name, as the host compares names.
    Named(String),
}

impl TryFrom<String> for FcTargets {
    type Error = WordError;
    fn try_from(word: String) -> Result<Self, WordError> {
        if word == EVERY_SERVER {
            return Ok(Self::Every);
        }
        // A port's name is hexadecimal whatever its letters' case; a unit's may be, too.
        let name = port_name(&word).or_else(|| unit_name(&word));
        name.map(Self::Named).ok_or(WordError::FcTarget(word))
    }
}

impl fmt::Display for FcTargets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every => f.write_str(EVERY_SERVER),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl FcTargets {
    /// Returns whether everything that `other` includes is one of them.
    pub(super) fn covers(&self, other: &Self) -> bool {
        *self == Self::Every || self == other
    }

    /// Returns whether the port or unit of this name is one of them.
    pub(crate) fn includes(&self, name: &str) -> bool {
        match self {
            Self::Every => true,
            Self::Named(granted) => granted == name,
        }
    }
}

/// The bits of an address.
const fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The first bits of an address, the others cut off.
fn first_bits(address: IpAddr, bits: u8) -> u128 {
    let number = match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    number.checked_shr(u32::from(width(address).saturating_sub(bits))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn includes(word: &str, name: &str, address: &str) -> bool {
        Servers::try_from(word.to_owned()).unwrap().include(name, address.parse().unwrap())
    }

    #[test]
    fn a_server_is_granted_by_name_address_or_network() {
        for (word, name, address) in [
            ("*", "any", "192.0.2.1"),
            ("192.0.2.1", "nas", "192.0.2.1"),
            ("192.0.2.1", "nas", "::ffff:192.0.2.1"),
            ("192.0.2.0/24", "192.0.2.200", "192.0.2.200"),
            ("0.0.0.0/0", "any", "198.51.100.1"),
            ("::/0", "any", "2001:db8::1"),
            ("2001:db8::/32", "any", "2001:db8:ffff::1"),
            ("NAS.example.com", "nas.Example.com", "192.0.2.1"),
        ] {
            assert!(includes(word, name, address), "{word} {name} {address}");
        }
        for (word, name, address) in [
            ("192.0.2.1", "nas", "192.0.2.2"),
            ("192.0.2.0/25", "nas", "192.0.2.200"),
            ("0.0.0.0/0", "any", "2001:db8::1"),
            ("2001:db8::/33", "any", "2001:db8:ffff::1"),
            ("nas.example.com", "other.example.com", "192.0.2.1"),
            ("nas.example.com", "192.0.2.1", "192.0.2.1"),
        ] {
            assert!(!includes(word, name, address), "{word} {name} {address}");
        }
    }

    #[test]
    fn a_portal_is_granted_by_address_or_network_alone() {
        let includes =
            |word: &str, address: &str| Portals::try_from(word.to_owned()).unwrap().include(address.parse().unwrap());
        assert!(includes("*", "::1") && includes("192.0.2.0/24", "192.0.2.9") && includes("::1", "::1"));
        assert!(!includes("192.0.2.0/24", "192.0.3.9"));
        for word in ["san.example.com", "192.0.2.1:3260", "", "[::1]"] {
            assert!(Portals::try_from(word.to_owned()).is_err(), "{word:?}");
        }
    }

    #[test]
    fn a_target_of_fibre_channel_is_granted_by_the_name_of_its_port_or_unit() {
        let includes = |word: &str, name: &str| FcTargets::try_from(word.to_owned()).unwrap().includes(name);
        assert!(includes("*", "50060e801049cfd1") && includes("0x50060E801049CFD1", "50060e801049cfd1"));
        assert!(includes("ACME IDENT-1", "ACME_IDENT-1"));
        assert!(!includes("50060e801049cfd1", "50060e801049cfd2"));
        for word in ["", "**", "../x", "a/b", "0x*"] {
            assert!(FcTargets::try_from(word.to_owned()).is_err(), "{word:?}");
        }
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for word in
            ["", "a b", "nas:/export", "192.0.2.0/33", "::/129", "192.0.2.0/x", "nas/24", "-nas", "*.example.com"]
        {
            assert!(Servers::try_from(word.to_owned()).is_err(), "{word:?}");
        }
    }
}
