//! Which hub is meant, and the one way to a client of it: the local hub is started here when it is needed.

use parler_client::{Client, ClientOptions, Deadlines, HubAddress, Identity, NoSessionCache, Revived};

use parler_protocol::AccessToken;

use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Home;
use crate::local_hub::LocalHub;
use crate::sessions::SessionFile;

/// A hub that somebody chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HubChoice {
    /// This user's own.
    Local,
    /// The one at this address.
    At(HubAddress),
}

impl HubChoice {
    /// Reads `local` or a URL. `from` is where it was said.
    pub(crate) fn parse(text: &str, from: &str) -> Result<Self> {
        if text == "local" {
            return Ok(Self::Local);
        }
        text.parse().map(Self::At).map_err(|error| {
            Error::usage(format_args!("{from}: {error}")).then("git parler connect --local, or --hub https://HOST")
        })
    }

    /// The local hub by its name where this is its address: then its secret is known, and it is also found when its
    /// port changes.
    pub(crate) fn recognised(self, home: &Home) -> Result<Self> {
        match &self {
            Self::At(address) if address.is_loopback() => match LocalHub::of(home).running()? {
                Some(record) if record.address()? == *address => Ok(Self::Local),
                _ => Ok(self),
            },
            _ => Ok(self),
        }
    }

    /// The choice as a configuration value.
    pub(crate) fn to_config(&self) -> String {
        match self {
            Self::Local => "local".to_owned(),
            Self::At(address) => address.to_string(),
        }
    }
}

/// Every place where a hub may be chosen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Chosen<'a> {
    pub(crate) flag: Option<&'a str>,
    pub(crate) environment: Option<&'a str>,
    pub(crate) config: Option<&'a str>,
}

impl Chosen<'_> {
    /// The hub that counts; the local one where nobody chose.
    pub(crate) fn winner(&self) -> Result<HubChoice> {
        let places = [
            (self.flag, "--hub"),
            (self.environment, "PARLER_HUB"),
            (self.config, "parler.hub"),
        ];
        match places.into_iter().find_map(|(value, from)| Some((value?, from))) {
            Some((value, from)) => HubChoice::parse(value, from),
            None => Ok(HubChoice::Local),
        }
    }
}

/// The setting that allows plain http to this host (`host[:port]`).
pub(crate) fn insecure_key(authority: &str) -> String {
    format!("parler.{authority}.insecure")
}

/// Refuses to speak to another machine in the clear, unless `insecure` allows it for that host.
pub(crate) fn require_secure(address: &HubAddress, insecure: impl Fn(&str) -> Result<bool>) -> Result<()> {
    let authority = address.authority();
    if address.is_https() || address.is_loopback() || insecure(&authority)? {
        return Ok(());
    }
    let what = format!("{authority} is not on this machine, and plain http is not allowed there");
    Err(Error::new(ErrorKind::Refused, what)
        .then(format!("use https, or git config {} true", insecure_key(&authority))))
}

/// Whether the local hub is started for whoever speaks to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Where it does not run.
    IfNeeded,
    /// It runs, or there is no client.
    Never,
}

/// A client of a hub that speaks as this agent. Starts the local hub if that is meant and `start` allows it; nothing else
/// is sent yet. Every client is made here, so whichever way a hub was named, nothing goes to another machine in the
/// clear unless `insecure` allows it for that host.
#[expect(clippy::too_many_arguments, reason = "the one place that all of it comes together")]
pub(crate) fn client(
    hub: &HubChoice,
    identity: Identity,
    token: Option<&AccessToken>,
    deadlines: Deadlines,
    home: &Home,
    environment: &Environment,
    start: Start,
    insecure: impl Fn(&str) -> Result<bool>,
) -> Result<Client> {
    let (address, secret, sessions) = match hub {
        HubChoice::At(address) => {
            require_secure(address, insecure)?;
            let sessions = SessionFile::of(home, &address.to_string(), &identity, None);
            (address.clone(), None, sessions)
        }
        HubChoice::Local => {
            let record = match start {
                Start::IfNeeded => LocalHub::of(home).ensure(environment)?,
                Start::Never => LocalHub::of(home).running()?.ok_or_else(|| {
                    Error::new(ErrorKind::Unreachable, "the local hub does not run").then("git parler hub start")
                })?,
            };
            // By name, not address: the port may change with the next start, the session stays.
            let sessions = SessionFile::of(home, "local", &identity, Some(record.hub));
            (record.address()?, Some(record.secret), sessions)
        }
    };
    let options = ClientOptions {
        address,
        identity,
        secret,
        token: token.cloned(),
        // A token is used as it is, and nothing of it kept.
        sessions: match token {
            Some(_) => Box::new(NoSessionCache),
            None => Box::new(sessions),
        },
        deadlines,
    };
    let client = Client::new(options)?;
    Ok(match hub {
        HubChoice::At(_) => client,
        // A hub that ends while it is spoken to (a crash, a newer version) is followed by the next.
        HubChoice::Local if start == Start::Never => client,
        HubChoice::Local => {
            let (local, environment) = (LocalHub::of(home), environment.clone());
            client.reviving(Box::new(move || {
                let record = local.ensure(&environment).ok()?;
                Some(Revived {
                    address: record.address().ok()?,
                    secret: Some(record.secret),
                })
            }))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn the_nearest_word_wins_and_the_last_resort_is_here() {
        let all = Chosen {
            flag: Some("https://a.example"),
            environment: Some("https://b.example"),
            config: Some("local"),
        };
        let at = |text: &str| HubChoice::At(text.parse().unwrap());
        assert_eq!(all.winner().unwrap(), at("https://a.example"));
        assert_eq!(Chosen { flag: None, ..all }.winner().unwrap(), at("https://b.example"));
        assert_eq!(
            Chosen {
                config: Some("local"),
                ..Chosen::default()
            }
            .winner()
            .unwrap(),
            HubChoice::Local
        );
        assert_eq!(Chosen::default().winner().unwrap(), HubChoice::Local);
    }

    #[test]
    fn a_bad_choice_is_named_and_not_passed_over() {
        let error = Chosen {
            environment: Some("ftp://x"),
            config: Some("local"),
            flag: None,
        }
        .winner()
        .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.line().starts_with("PARLER_HUB: "), "{error}");
    }

    #[test]
    fn a_choice_reads_back() {
        for text in ["local", "https://hub.example/x"] {
            let choice = HubChoice::parse(text, "--hub").unwrap();
            assert_eq!(HubChoice::parse(&choice.to_config(), "--hub").unwrap(), choice);
        }
    }
}
