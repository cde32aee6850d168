//! Who is behind a proxy. A header says it, and anybody can send headers: it counts only from peers that are known to
//! be proxies, and of the addresses in it only those that such peers wrote.

use std::net::IpAddr;
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED: HeaderName = HeaderName::from_static("forwarded");

/// The header in which the proxies say whom they speak for. One of the two, because a proxy that writes one hands on what
/// its client wrote into the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For: ADDR, ADDR`
    #[default]
    XForwardedFor,
    /// `Forwarded: for=ADDR, for="[ADDR]:PORT"` (RFC 7239)
    Forwarded,
}

/// An address, or a range of them (`10.0.0.0/8`), where proxies are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyNetwork(IpNet);

/// Not an address, nor a range of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an address, or a range such as 10.0.0.0/8")]
pub struct NotANetwork;

impl FromStr for ProxyNetwork {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let network = text
            .parse::<IpNet>()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network.map(Self).map_err(|_| NotANetwork)
    }
}

/// The peers that are believed.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies {
    /// Where they are. None: nobody is believed.
    pub networks: Vec<ProxyNetwork>,
    /// What they write.
    pub header: ForwardedHeader,
}

impl TrustedProxies {
    fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.0.contains(&address))
    }

    /// The address that a request of this peer comes from: the last one before the proxies, as they tell it.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        let name = match self.header {
            ForwardedHeader::XForwardedFor => X_FORWARDED_FOR,
            ForwardedHeader::Forwarded => FORWARDED,
        };
        // Each proxy adds at the end, so whoever is trusted vouches for the entry before its own.
        let entries = headers.get_all(name).iter().rev().flat_map(|value| {
            let value = value.to_str().unwrap_or_default();
            value.rsplit(',').map(str::trim)
        });
        for entry in entries {
            if !self.trusts(client) {
                break;
            }
            let address = match self.header {
                ForwardedHeader::XForwardedFor => address(entry),
                ForwardedHeader::Forwarded => forwarded_for(entry),
            };
            match address {
                Some(address) => client = address,
                // Whoever wrote that is the last one known.
                None => break,
            }
        }
        client
    }
}

/// `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:4711`
fn address(text: &str) -> Option<IpAddr> {
    let bare = match text.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?.0,
        None => match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => host,
            _ => text,
        },
    };
    bare.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// What `for` says in `for=192.0.2.1;proto=https`.
fn forwarded_for(entry: &str) -> Option<IpAddr> {
    let value = entry.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| value.trim())
    })?;
    address(value.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(networks: &[&str], header: ForwardedHeader) -> TrustedProxies {
        TrustedProxies {
            networks: networks.iter().map(|network| network.parse().unwrap()).collect(),
            header,
        }
    }

    fn client(proxies: &TrustedProxies, peer: &str, name: HeaderName, values: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&name, value.parse().unwrap());
        }
        proxies.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn only_what_trusted_proxies_wrote_counts() {
        let known = proxies(
            &["127.0.0.1", "10.0.0.0/8", "2001:db8::/32"],
            ForwardedHeader::default(),
        );
        for (peer, values, expected) in [
            // Nobody known speaks: whatever is said is said by a stranger.
            ("192.0.2.9", &["198.51.100.1"][..], "192.0.2.9"),
            ("192.0.2.9", &["10.0.0.1, 127.0.0.1"], "192.0.2.9"),
            // The proxy's own word is the last one; what came before it is the client's.
            ("127.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", &["203.0.113.7, 198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", &["203.0.113.7", "198.51.100.1"], "198.51.100.1"),
            ("::ffff:127.0.0.1", &["::ffff:198.51.100.1"], "198.51.100.1"),
            // A chain of proxies.
            ("127.0.0.1", &["203.0.113.7, 198.51.100.1, 10.1.2.3"], "198.51.100.1"),
            ("2001:db8::5", &["2001:db9::1"], "2001:db9::1"),
            ("127.0.0.1", &["[2001:db9::1]:4711"], "2001:db9::1"),
            ("127.0.0.1", &["198.51.100.1:4711"], "198.51.100.1"),
            // Everybody is a proxy: then it is the first of them.
            ("127.0.0.1", &["10.0.0.1, 10.0.0.2"], "10.0.0.1"),
            // What is no address ends the search.
            ("127.0.0.1", &["198.51.100.1, unknown"], "127.0.0.1"),
            ("127.0.0.1", &["198.51.100.1, unknown, 10.0.0.2"], "10.0.0.2"),
            ("127.0.0.1", &[""], "127.0.0.1"),
            ("127.0.0.1", &[], "127.0.0.1"),
        ] {
            assert_eq!(
                client(&known, peer, X_FORWARDED_FOR, values),
                expected,
                "{peer} {values:?}"
            );
            assert_eq!(
                client(&known, peer, FORWARDED, values),
                peer.parse::<IpAddr>().unwrap().to_canonical().to_string()
            );
        }
        let nobody = TrustedProxies::default();
        assert_eq!(
            client(&nobody, "127.0.0.1", X_FORWARDED_FOR, &["198.51.100.1"]),
            "127.0.0.1"
        );
    }

    #[test]
    fn the_header_of_rfc_7239_is_read_where_it_is_the_one() {
        let known = proxies(&["10.0.0.0/8"], ForwardedHeader::Forwarded);
        for (values, expected) in [
            (&["for=198.51.100.1;proto=https"][..], "198.51.100.1"),
            (
                &["for=203.0.113.7, For=\"[2001:db9::1]:4711\"; by=10.0.0.1"],
                "2001:db9::1",
            ),
            (&["for=198.51.100.1", "proto=https;for=10.0.0.2"], "198.51.100.1"),
            (&["for=_hidden"], "10.0.0.1"),
            (&["proto=https"], "10.0.0.1"),
        ] {
            assert_eq!(client(&known, "10.0.0.1", FORWARDED, values), expected, "{values:?}");
        }
        assert_eq!(
            client(&known, "10.0.0.1", X_FORWARDED_FOR, &["198.51.100.1"]),
            "10.0.0.1"
        );
    }

    #[test]
    fn networks_are_addresses_and_ranges() {
        for good in ["127.0.0.1", "::1", "10.0.0.0/8", "fd00::/8"] {
            good.parse::<ProxyNetwork>().unwrap();
        }
        for bad in ["", "localhost", "10.0.0.0/33", "10.0.0"] {
            bad.parse::<ProxyNetwork>().unwrap_err();
        }
    }
}
