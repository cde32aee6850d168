//! Where a hub listens.

use std::fmt;
use std::str::FromStr;

use url::{Host, Url};

/// The base URL of a hub: `http://` or `https://`, a host, perhaps a port and a path prefix. Never holds user names,
/// passwords, queries or fragments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HubAddress(Url);

/// Why a text is no hub address. The text is not repeated: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the address of a hub: {why}")]
pub struct AddressError {
    why: &'static str,
}

impl HubAddress {
    /// What the `Host` header of a request to this hub says: `host` or `host:port`.
    pub fn authority(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        match self.0.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Whether the hub is on this machine, by its address alone.
    pub fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        }
    }

    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// The URL of a path of this hub.
    pub(crate) fn join(&self, path: &str) -> String {
        format!("{}{path}", self.0.as_str().trim_end_matches('/'))
    }
}

impl fmt::Display for HubAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

impl FromStr for HubAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let no = |why| Err(AddressError { why });
        // The URL parser drops tabs and line breaks silently; an address that holds any is not what somebody meant.
        if text
            .chars()
            .any(|character| character.is_control() || character.is_whitespace())
        {
            return no("it holds a blank or a control character");
        }
        if text.contains('@') {
            return no("user names and passwords do not belong in it");
        }
        let Ok(mut url) = Url::parse(text) else {
            return no("it is not a URL");
        };
        if !matches!(url.scheme(), "http" | "https") {
            return no("it does not begin with http:// or https://");
        }
        // It finds a host in `https:x`, `https:\\x` and `https:///x` too.
        let names_host = text.split_once("://").is_some_and(|(scheme, behind)| {
            scheme.eq_ignore_ascii_case(url.scheme()) && !behind.starts_with('/') && !behind.contains('\\')
        });
        if !names_host || url.host_str().is_none_or(str::is_empty) {
            return no("it names no host");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return no("it has a query or a fragment");
        }
        // With a slash at its end or without, it is the same hub.
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self(url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_plain_base_urls() {
        for (text, shown, authority, loopback) in [
            ("http://127.0.0.1:7777", "http://127.0.0.1:7777", "127.0.0.1:7777", true),
            (
                "http://127.0.0.1:7777/",
                "http://127.0.0.1:7777",
                "127.0.0.1:7777",
                true,
            ),
            ("https://Hub.Example", "https://hub.example", "hub.example", false),
            (
                "https://hub.example:443/x/",
                "https://hub.example/x",
                "hub.example",
                false,
            ),
            ("http://[::1]:80", "http://[::1]", "[::1]", true),
        ] {
            let address: HubAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.authority(), authority);
            assert_eq!(address.is_loopback(), loopback);
        }
        let [with, without]: [HubAddress; 2] = ["http://h/x//", "http://h/x"].map(|text| text.parse().unwrap());
        assert_eq!(with, without);
        assert_eq!(with.join("/v1"), "http://h/x/v1");
        for bad in [
            "",
            "hub.example",
            "ftp://hub",
            "http://",
            "https://user@hub",
            "https://user:secret@hub",
            "https://hub/?x",
            "https://hub/#x",
            "https://hub\n",
            "https:hub",
            "https:\\\\hub",
            "https:///hub",
            "https:/hub/u:secret@x",
            "https://hub/u:secret@x",
            "file:///etc",
        ] {
            let error = bad.parse::<HubAddress>().unwrap_err();
            assert!(!error.to_string().contains("secret"));
        }
    }
}
