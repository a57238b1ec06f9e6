//! Portals: an address and a port.

use core::net::{IpAddr, SocketAddr};

/// The port of iSCSI targets.
const PORT: u16 = 3260;

/// Reads `ADDRESS` or `ADDRESS:PORT`, IPv6 with a port in brackets.
pub(crate) fn parse(text: &str) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = match bare {
        Some(bare) => bare.parse::<IpAddr>().ok().filter(IpAddr::is_ipv6),
        None => text.parse().ok(),
    };
    let portal = address.map(|address| SocketAddr::new(address, PORT)).or_else(|| text.parse().ok());
    // An address with a scope is written with it, and open-iscsi knows none.
    portal.filter(|portal| portal.port() != 0 && !text.contains('%'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_usual_port_unless_it_names_another() {
        for (text, portal) in [
            ("192.0.2.1", "192.0.2.1:3260"),
            ("192.0.2.1:860", "192.0.2.1:860"),
            ("2001:db8::1", "[2001:db8::1]:3260"),
            ("[2001:db8::1]", "[2001:db8::1]:3260"),
            ("[2001:db8::1]:860", "[2001:db8::1]:860"),
        ] {
            assert_eq!(parse(text), portal.parse().ok(), "{text}");
        }
        for text in [
            "",
            "san.example.com",
            "192.0.2.1:",
            "192.0.2.1:0",
            "192.0.2.1:65536",
            "[192.0.2.1]",
            "fe80::1%eth0",
            "[fe80::1%1]:3260",
            "-p",
            "192.0.2.1,192.0.2.2",
            "192.0.2.1\n",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
