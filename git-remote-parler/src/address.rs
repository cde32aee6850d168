//! Where a `parler::` URL leads: a hub, and a room, service or agent there. Read before anything is opened or sent.

use parler_client::HubAddress;
use parler_protocol::{AgentName, RoomName, ServiceName};

/// Longest address that is read, in bytes.
const MAX_ADDRESS_BYTES: usize = 2048;
/// How git marks a URL for us, and how the program's own scheme begins.
const MARK: &str = "parler::";
const SCHEME: &str = "parler://";

/// What an address leads to on its hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// `room/NAME`
    Room(RoomName),
    /// `service/NAME`: what is pushed there is a job.
    Service(ServiceName),
    /// `dm/AGENT`: an agent by name or key.
    Dm(String),
}

/// Which hub an address means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubChoice {
    /// The one that is configured, the local one unless said otherwise.
    Configured,
    /// The one named.
    At(HubAddress),
}

/// A parsed address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The hub.
    pub hub: HubChoice,
    /// What is meant there.
    pub destination: Destination,
}

/// Why a text is no address. An address that may hold a password is not repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Git named no URL, and the remote's name is none.
    #[error("remote {name:?} has no url: git config remote.NAME.url parler::room/ROOM")]
    Missing {
        /// The remote's name, cut.
        name: String,
    },
    /// The text breaks the grammar.
    #[error("not the address of a room: {why} (parler::room/ROOM or parler://HOST/room/ROOM)")]
    Grammar {
        /// What is wrong.
        why: String,
    },
    /// Plain http to another machine.
    #[error(
        "{authority} is not on this machine, and plain http is not allowed there: use https, or git config parler.{authority}.insecure true"
    )]
    Insecure {
        /// The hub's host and port.
        authority: String,
    },
}

fn grammar(why: impl Into<String>) -> AddressError {
    AddressError::Grammar { why: why.into() }
}

impl Address {
    /// Reads the arguments that git gives a remote helper: the remote's name, or its URL as typed where none is
    /// configured, and the URL without `parler::`, absent where a remote has only `remote.<name>.vcs`.
    ///
    /// `insecure` says whether plain http is allowed to a host (`host[:port]`) that is not this machine.
    ///
    /// # Errors
    /// [`AddressError`]; nothing has been opened or sent.
    pub fn from_arguments(
        name: &str,
        url: Option<&str>,
        insecure: impl Fn(&str) -> bool,
    ) -> Result<Self, AddressError> {
        match url {
            Some(url) => Self::parse(url, insecure),
            None if name.starts_with(MARK) || name.starts_with(SCHEME) => Self::parse(name, insecure),
            None => Err(AddressError::Missing {
                name: name.chars().take(80).collect(),
            }),
        }
    }

    /// Reads one address, with or without `parler::` before it.
    ///
    /// # Errors
    /// [`AddressError`]; nothing has been opened or sent.
    pub fn parse(text: &str, insecure: impl Fn(&str) -> bool) -> Result<Self, AddressError> {
        if text.len() > MAX_ADDRESS_BYTES {
            return Err(grammar("it is too long"));
        }
        if let Some(bad) = text
            .chars()
            .find(|character| !character.is_ascii_graphic() || "%?#\\".contains(*character))
        {
            return Err(grammar(format!("it holds {bad:?}")));
        }
        let text = text.strip_prefix(MARK).unwrap_or(text);
        if text.starts_with('-') {
            return Err(grammar("it begins with '-'"));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(Self {
                hub: HubChoice::Configured,
                destination: parse_destination(text)?,
            });
        };
        let (base, destination) = split_destination(rest)?;
        let destination = parse_destination(destination)?;
        let hub = parse_hub(scheme, base, insecure)?;
        Ok(Self {
            hub: HubChoice::At(hub),
            destination,
        })
    }
}

/// `host[:port][/prefix]` and `room/NAME` of `host[:port][/prefix]/room/NAME`.
fn split_destination(rest: &str) -> Result<(&str, &str), AddressError> {
    let mut slashes = rest.rmatch_indices('/').map(|(at, _)| at);
    match (slashes.next(), slashes.next()) {
        (Some(_), Some(at)) => Ok((&rest[..at], &rest[at + 1..])),
        _ => Err(grammar("it names no room")),
    }
}

fn parse_hub(scheme: &str, base: &str, insecure: impl Fn(&str) -> bool) -> Result<HubAddress, AddressError> {
    if base.contains('@') {
        return Err(grammar("user names and passwords do not belong in it"));
    }
    if base.starts_with('-') {
        return Err(grammar("its host begins with '-'"));
    }
    // What a URL parser would write in another way: then one hub would have two spellings, and `..` lead out of a path.
    let is_plain = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        !matches!(part, "" | "." | "..") && part.bytes().all(plain)
    };
    if !base.split('/').skip(1).all(is_plain) {
        return Err(grammar(
            "the path before room/ is not of letters, digits and any of -._~",
        ));
    }
    let hub = |scheme: &str| -> Result<HubAddress, AddressError> {
        format!("{scheme}://{base}")
            .parse()
            .map_err(|error: parler_client::AddressError| grammar(error.to_string()))
    };
    match scheme {
        "https" => hub("https"),
        "http" => {
            let plain = hub("http")?;
            let authority = plain.authority();
            if plain.is_loopback() || insecure(&authority) {
                Ok(plain)
            } else {
                Err(AddressError::Insecure { authority })
            }
        }
        "parler" => {
            let plain = hub("http")?;
            // One spelling for both: the hub on this machine has no certificate.
            if plain.is_loopback() || insecure(&plain.authority()) {
                Ok(plain)
            } else {
                hub("https")
            }
        }
        _ => Err(grammar("its scheme is none of parler, https and http")),
    }
}

fn parse_destination(text: &str) -> Result<Destination, AddressError> {
    let (kind, name) = text.split_once('/').ok_or_else(|| grammar("it names no room"))?;
    let room = |name: &str| name.parse::<RoomName>().map_err(|error| grammar(error.to_string()));
    match kind {
        "room" => room(name).map(Destination::Room),
        "service" => {
            let service = name.parse::<ServiceName>();
            service
                .map(Destination::Service)
                .map_err(|error| grammar(error.to_string()))
        }
        // A name that nobody chose has a slash in it.
        "dm" if !name.starts_with('-') => {
            name.parse::<AgentName>().map_err(|error| grammar(error.to_string()))?;
            Ok(Destination::Dm(name.to_owned()))
        }
        _ => Err(grammar("it names no room")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address, AddressError> {
        Address::parse(text, |authority| authority == "lab:8080")
    }

    #[test]
    fn every_form_leads_to_its_hub_and_room() {
        for (text, hub) in [
            ("room/x", None),
            ("parler::room/x", None),
            ("parler://hub.example/room/x", Some("https://hub.example")),
            ("parler://hub.example:8443/room/x", Some("https://hub.example:8443")),
            ("parler://127.0.0.1:7777/room/x", Some("http://127.0.0.1:7777")),
            ("parler://[::1]:7777/room/x", Some("http://[::1]:7777")),
            ("parler://localhost:7777/room/x", Some("http://localhost:7777")),
            ("parler://lab:8080/room/x", Some("http://lab:8080")),
            ("https://hub.example/room/x", Some("https://hub.example")),
            (
                "parler::https://hub.example/team/a/room/x",
                Some("https://hub.example/team/a"),
            ),
            ("https://127.0.0.1:1/room/x", Some("https://127.0.0.1:1")),
            ("http://127.0.0.1:1/room/x", Some("http://127.0.0.1:1")),
            ("http://lab:8080/room/x", Some("http://lab:8080")),
        ] {
            let address = parse(text).unwrap();
            let expected = hub.map_or(HubChoice::Configured, |hub| HubChoice::At(hub.parse().unwrap()));
            assert_eq!(address.hub, expected, "{text}");
            assert_eq!(address.destination, Destination::Room("x".parse().unwrap()), "{text}");
        }
        for name in ["review", "Review"] {
            let address = parse(&format!("service/{name}")).unwrap();
            assert_eq!(address.destination, Destination::Service("review".parse().unwrap()));
        }
        for name in ["alice", "alice@laptop/project"] {
            let address = parse(&format!("dm/{name}")).unwrap();
            assert_eq!(address.destination, Destination::Dm(name.into()));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_before_anything_happens() {
        for bad in [
            "",
            "room",
            "room/",
            "room/x/",
            "room/../x",
            "room/-x",
            "room/a/b",
            "-room/x",
            "parler::-room/x",
            "parler::parler::room/x",
            "Room/x",
            "other/x",
            "service/",
            "service/a b",
            "dm/",
            "dm/-x",
            "room/x?y",
            "room/x#y",
            "room/%78",
            "room/x\n",
            "room/\u{1b}[0m",
            "room/é",
            "parler://hub.example",
            "parler://hub.example/x",
            "parler:///room/x",
            "parler://user@hub.example/room/x",
            "parler://user:secret@hub.example/room/x",
            "https://user:secret@hub.example/room/x",
            "parler://-hub/room/x",
            "parler://hub.example/../room/x",
            "parler://hub.example/a/./room/x",
            "parler://hub.example//room/x",
            "parler://hub.example/{a}/room/x",
            "parler://hub.example:99999/room/x",
            "ssh://hub.example/room/x",
            "file:///room/x",
            &format!("room/{}", "x".repeat(3000)),
        ] {
            let error = parse(bad).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert_eq!(
            parse("http://hub.example/room/x").unwrap_err(),
            AddressError::Insecure {
                authority: "hub.example".into()
            }
        );
    }

    #[test]
    fn the_url_may_be_missing() {
        let from = |name, url| Address::from_arguments(name, url, |_| false);
        assert!(from("team", Some("room/x")).is_ok());
        assert!(from("parler::room/x", None).is_ok());
        assert!(from("parler://hub.example/room/x", None).is_ok());
        assert!(matches!(from("team", None), Err(AddressError::Missing { .. })));
    }
}
