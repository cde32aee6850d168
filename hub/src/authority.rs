//! The names a hub answers to. A browser page that was led here by a name of its own choosing (DNS rebinding) names
//! that in `Host`, and is refused.

use std::collections::HashSet;
use std::net::SocketAddr;

const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// The allowed values of `Host`, lowercase.
#[derive(Debug, Clone)]
pub(crate) struct Authorities(HashSet<String>);

impl Authorities {
    /// The bound address and the loopback names, each with the bound port, and `extra` as written. The port that is usual
    /// for http, or for https, may be left out.
    pub(crate) fn new(bound: SocketAddr, is_https: bool, extra: &[String]) -> Self {
        let usual_port = if is_https { HTTPS_PORT } else { HTTP_PORT };
        let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
        // "Any address" is what one binds to, not where one connects to.
        if !bound.ip().is_unspecified() {
            hosts.push(match bound {
                SocketAddr::V4(bound) => bound.ip().to_string(),
                SocketAddr::V6(bound) => format!("[{}]", bound.ip()),
            });
        }
        let mut allowed: HashSet<_> = extra.iter().map(|authority| authority.to_ascii_lowercase()).collect();
        for host in hosts {
            allowed.insert(format!("{host}:{}", bound.port()));
            if bound.port() == usual_port {
                allowed.insert(host);
            }
        }
        Self(allowed)
    }

    pub(crate) fn allows(&self, authority: &str) -> bool {
        self.0.contains(&authority.to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_names_with_the_bound_port_are_answered() {
        let authorities = Authorities::new("127.0.0.1:7777".parse().unwrap(), false, &["Hub.Example".into()]);
        for good in [
            "127.0.0.1:7777",
            "localhost:7777",
            "LOCALHOST:7777",
            "[::1]:7777",
            "hub.example",
        ] {
            assert!(authorities.allows(good), "{good}");
        }
        for bad in [
            "",
            "127.0.0.1",
            "localhost:80",
            "evil.example:7777",
            "127.0.0.1.evil.example:7777",
            "0.0.0.0:7777",
        ] {
            assert!(!authorities.allows(bad), "{bad}");
        }
        let any = Authorities::new("0.0.0.0:80".parse().unwrap(), false, &[]);
        assert!(any.allows("localhost") && !any.allows("0.0.0.0"));
        for (port, is_bare) in [(443, true), (80, false)] {
            let https = Authorities::new(([127, 0, 0, 1], port).into(), true, &[]);
            assert_eq!(https.allows("localhost"), is_bare);
            assert!(https.allows(&format!("localhost:{port}")));
        }
    }
}
