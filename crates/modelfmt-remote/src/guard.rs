//! Guards which network addresses may be connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::Fault;

/// The kind of network that an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    Public,
    Private,
    Loopback,
    LinkLocal,
    /// The addresses at which machines in a cloud get their credentials.
    Metadata,
}

impl Network {
    const fn bit(self) -> u8 {
        match self {
            Self::Public => 1,
            Self::Private => 2,
            Self::Loopback => 4,
            Self::LinkLocal => 8,
            Self::Metadata => 0,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::Loopback => "loopback",
            Self::LinkLocal => "link-local",
            Self::Metadata => "metadata",
        }
    }

    pub(crate) fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => match embedded(address) {
                Some(address) => Self::of_v4(address),
                None => Self::of_v6(address),
            },
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        // Amazon (instances, ECS, EKS), Google, Azure and most others; Alibaba; Azure's wire server; Oracle.
        const METADATA: [Ipv4Addr; 6] = [
            Ipv4Addr::new(169, 254, 169, 254),
            Ipv4Addr::new(169, 254, 170, 2),
            Ipv4Addr::new(169, 254, 170, 23),
            Ipv4Addr::new(100, 100, 100, 200),
            Ipv4Addr::new(168, 63, 129, 16),
            Ipv4Addr::new(192, 0, 0, 192),
        ];
        let [first, second, ..] = address.octets();
        if METADATA.contains(&address) {
            Self::Metadata
        } else if address.is_loopback() || first == 0 {
            Self::Loopback // connecting to 0.0.0.0 leads to this machine
        } else if address.is_link_local() {
            Self::LinkLocal
        } else if address.is_private() || (first == 100 && second & 0xC0 == 64) || first >= 224 {
            Self::Private // carriers' networks and what no server on the internet has count as private too
        } else {
            Self::Public
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        // Amazon's instances and EKS; Google.
        const METADATA: [Ipv6Addr; 3] = [
            Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
            Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
            Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
        ];
        let [first, ..] = address.segments();
        if METADATA.contains(&address) {
            Self::Metadata
        } else if address.is_loopback() || address.is_unspecified() {
            Self::Loopback
        } else if first & 0xffc0 == 0xfe80 {
            Self::LinkLocal
        } else if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 || address.is_multicast() {
            Self::Private
        } else {
            Self::Public
        }
    }
}

/// Returns the IPv4 address that an IPv6 address contains: mapped, compatible, NAT64 or 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, high, low] = address.segments();
    let from = |high: u16, low: u16| Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => Some(from(high, low)),
        [0, 0, 0, 0, 0, 0] if high != 0 => Some(from(high, low)),
        [0x2002, ..] => Some(from(b, c)),
        _ => None,
    }
}

/// Decides which hosts the requests for one file may reach: the host of its URL, wherever it is, and other
/// hosts on the same kind of network or on a public network.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The host in the URL. If `None`, every host counts as named in the URL.
    named: Option<String>,
    /// The kinds of network on which that host was found.
    found: AtomicU8,
    private_redirects: bool,
    metadata: bool,
}

impl Guard {
    pub(crate) fn new(named: Option<&str>, private_redirects: bool) -> Self {
        let found = AtomicU8::new(Network::Public.bit());
        Self { named: named.map(str::to_owned), found, private_redirects, metadata: false }
    }

    /// Lets requests for credentials reach the metadata address.
    pub(crate) const fn with_metadata(mut self, allow: bool) -> Self {
        self.metadata = allow;
        self
    }

    /// Checks whether a connection to an address of a host is allowed.
    pub(crate) fn check(&self, host: &str, address: IpAddr) -> Result<(), Fault> {
        let network = Network::of(address);
        if network == Network::Metadata {
            return if self.metadata { Ok(()) } else { Err(Fault::Metadata(address)) };
        }
        if self.named.as_deref().is_none_or(|named| named == host) {
            self.found.fetch_or(network.bit(), Ordering::Relaxed);
            return Ok(());
        }
        if self.private_redirects || self.found.load(Ordering::Relaxed) & network.bit() != 0 {
            return Ok(());
        }
        Err(Fault::PrivateRedirect(address, network.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        Network::of(text.parse().unwrap())
    }

    #[test]
    fn addresses_are_told_apart() {
        for (text, expected) in [
            ("93.184.216.34", Network::Public),
            ("2606:2800:220:1::1", Network::Public),
            ("10.1.2.3", Network::Private),
            ("172.31.0.1", Network::Private),
            ("192.168.0.1", Network::Private),
            ("100.64.0.1", Network::Private),
            ("239.0.0.1", Network::Private),
            ("fd00::1", Network::Private),
            ("127.0.0.2", Network::Loopback),
            ("0.0.0.0", Network::Loopback),
            ("::1", Network::Loopback),
            ("::", Network::Loopback),
            ("::ffff:127.0.0.1", Network::Loopback),
            ("::127.0.0.1", Network::Loopback),
            ("64:ff9b::7f00:1", Network::Loopback),
            ("2002:7f00:1::", Network::Loopback),
            ("169.254.1.1", Network::LinkLocal),
            ("fe80::1", Network::LinkLocal),
            ("169.254.169.254", Network::Metadata),
            ("::ffff:169.254.169.254", Network::Metadata),
            ("64:ff9b::a9fe:a9fe", Network::Metadata),
            ("169.254.170.2", Network::Metadata),
            ("100.100.100.200", Network::Metadata),
            ("fd00:ec2::254", Network::Metadata),
        ] {
            assert_eq!(network(text), expected, "{text}");
        }
    }

    #[test]
    fn a_redirect_stays_among_networks_of_the_same_kind() {
        let [public, private, loopback, metadata] =
            ["93.184.216.34", "10.0.0.1", "127.0.0.1", "169.254.169.254"].map(|text| text.parse().unwrap());
        let guard = Guard::new(Some("h"), false);
        guard.check("h", public).unwrap();
        guard.check("other", public).unwrap();
        for refused in [private, loopback, metadata] {
            assert!(guard.check("other", refused).is_err(), "{refused}");
        }
        guard.check("h", private).unwrap();
        guard.check("other", private).unwrap();
        guard.check("other", loopback).unwrap_err();
        assert!(matches!(guard.check("h", metadata), Err(Fault::Metadata(_))));
        let open = Guard::new(Some("h"), true);
        open.check("other", loopback).unwrap();
        assert!(matches!(open.check("other", metadata), Err(Fault::Metadata(_))));
    }
}
