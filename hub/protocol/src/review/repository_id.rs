//! Which repository a status is about: what the addresses of its remote have in common, whichever of them a clone has. The
//! root commits would say it too, and no shallow clone has them. Reaches nothing: it is compared.

use std::fmt;
use std::str::FromStr;

use crate::limits::MAX_REPOSITORY_ID_BYTES;
use crate::{ParseError, serde_as_string};

/// A repository: `github.com/org/shop`. The host and the path of its address in lower case, without scheme, user, port,
/// query and `.git`; visible ASCII of at most 512 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepositoryId(String);

impl RepositoryId {
    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The repository at an address that a remote may have: a URL, or `user@host:path`. None for a place on this machine,
    /// which others do not know, and for what has no host or no path.
    pub fn of_address(address: &str) -> Option<Self> {
        let (authority, path) = match address.split_once("://") {
            Some(("ssh" | "git" | "http" | "https" | "git+ssh" | "ssh+git", rest)) => rest.split_once('/')?,
            Some(_) => return None,
            // With a slash before the colon it is a path, as git reads it; `helper::address` is a helper's.
            None => address
                .split_once(':')
                .filter(|(host, path)| !host.contains('/') && !path.starts_with(':'))?,
        };
        let host = authority.rsplit('@').next()?;
        let host = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let path = path.split(['?', '#']).next()?.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
        format!("{host}/{path}").to_ascii_lowercase().parse().ok()
    }
}

impl fmt::Display for RepositoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RepositoryId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let no = |why| Err(ParseError::new("repository", text, why));
        if text.len() > MAX_REPOSITORY_ID_BYTES {
            return no("is longer than 512 bytes");
        }
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase() && !b"@\\?#".contains(&byte);
        if !text.bytes().all(is_plain) {
            return no("is not of visible lower case ASCII without @, \\, ? and #");
        }
        let is_component = |component: &str| !matches!(component, "" | "." | "..");
        let is_path = text.split('/').all(is_component);
        let Some((host, _)) = text.split_once('/') else {
            return no("is not HOST/PATH");
        };
        // An address of IPv6 is written in brackets.
        let is_host = !host.contains(':') || host.starts_with('[') && host.ends_with(']');
        match is_path && is_host && !text.starts_with('-') && !text.ends_with(".git") {
            true => Ok(Self(text.to_owned())),
            false => no("is not HOST/PATH"),
        }
    }
}

serde_as_string!(RepositoryId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_a_repository_is_the_same_repository() {
        for address in [
            "https://github.com/org/shop",
            "https://github.com/Org/Shop.git",
            "https://user:secret@GitHub.com/org/shop.git/",
            "http://github.com:80/org/shop?x=1#y",
            "git@github.com:org/shop.git",
            "github.com:org/shop",
            "github.com:/org/shop",
            "ssh://git@github.com:22/org/shop.git",
            "git://github.com/org/shop",
        ] {
            let id = RepositoryId::of_address(address);
            assert_eq!(
                id.as_ref().map(RepositoryId::as_str),
                Some("github.com/org/shop"),
                "{address}"
            );
        }
    }

    #[test]
    fn a_place_on_this_machine_is_nobodys() {
        for address in [
            "/srv/shop.git",
            "../shop",
            "./a:b",
            "file:///srv/shop.git",
            "https://github.com",
            "https://github.com/",
            "parler::room/shop",
            "parler://hub.example/room/shop",
            "",
            "shop",
            "https:///shop",
            "https://host/a b",
        ] {
            assert_eq!(RepositoryId::of_address(address), None, "{address}");
        }
    }

    #[test]
    fn there_is_one_form() {
        for good in ["host/a", "[::1]/a", "host/~user/a:b"] {
            assert!(good.parse::<RepositoryId>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "host",
            "Host/a",
            "host/a.git",
            "/a",
            "a//b",
            "a/../b",
            "u@host/a",
            "-h/a",
            "host/a/",
        ] {
            assert!(bad.parse::<RepositoryId>().is_err(), "{bad:?}");
        }
    }
}
