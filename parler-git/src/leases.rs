//! `--force-with-lease` of `git parler push`, as git reads it: which refs may move to what does not contain where they
//! were, and where they must be for that. Asks a hub only which agent a remote `dm/AGENT` means.

use git_remote_parler::address::{Address, Destination, HubChoice as AddressHub};
use git_remote_parler::push::{Force, RefChange};
use git_remote_parler::repository::{RemoteConfig, Repository};
use parler_protocol::{Oid, RefName, RoomName};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::hubs::HubChoice;
use crate::pushing::full_names;

/// What the command line says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Leases {
    /// Every ref, at where this repository saw it last.
    all: bool,
    named: Vec<Named>,
}

#[derive(Debug, PartialEq, Eq)]
struct Named {
    name: String,
    /// A revision, empty: it must not exist; none: where this repository saw it last.
    expected: Option<String>,
}

impl Leases {
    /// Reads the values of the option; an empty one is the option alone.
    pub(crate) fn parse(values: &[String]) -> Result<Self> {
        let mut leases = Self::default();
        for value in values {
            if value.is_empty() {
                leases.all = true;
                continue;
            }
            let (name, expected) = match value.split_once(':') {
                Some((name, expected)) => (name, Some(expected.to_owned())),
                None => (value.as_str(), None),
            };
            if name.is_empty() {
                return Err(Error::usage(format_args!("--force-with-lease={value} names no ref")));
            }
            leases.named.push(Named {
                name: name.to_owned(),
                expected,
            });
        }
        Ok(leases)
    }

    /// Sets what the refs are expected at. A `+` or `--force` counts for more, as in git.
    pub(crate) fn apply(
        &self,
        context: &Context,
        hub: &HubChoice,
        room: &RoomName,
        changes: &mut [RefChange],
    ) -> Result<()> {
        for change in changes.iter_mut().filter(|change| change.force == Force::No) {
            let destination = &change.destination;
            let is_meant = |named: &&Named| full_names(&named.name).iter().any(|name| *name == destination.as_str());
            let expected = match self.named.iter().find(is_meant).map(|named| &named.expected) {
                Some(Some(revision)) if revision.is_empty() => None,
                Some(Some(revision)) => Some(context.repository()?.resolve(revision)?.oid),
                Some(None) => last_seen(context, hub, room, destination)?,
                None if self.all => last_seen(context, hub, room, destination)?,
                None => continue,
            };
            change.force = Force::Lease(expected.filter(|oid| !oid.is_null()));
        }
        Ok(())
    }
}

/// Where the remotes that are this room have kept a ref; none where it was not seen.
fn last_seen(context: &Context, hub: &HubChoice, room: &RoomName, name: &RefName) -> Result<Option<Oid>> {
    let repository = context.repository()?;
    let mut is_remote = false;
    for remote in repository.remotes()? {
        if !is_room(context, &remote, hub, room)? {
            continue;
        }
        is_remote = true;
        if let Some(oid) = tracked(repository, &remote, name)? {
            return Ok(Some(oid));
        }
    }
    if is_remote {
        return Ok(None);
    }
    Err(Error::usage(format_args!(
        "no remote here is room '{room}', so where {name} was last is not known"
    ))
    .then(format!("--force-with-lease={name}:EXPECT")))
}

fn is_room(context: &Context, remote: &RemoteConfig, hub: &HubChoice, room: &RoomName) -> Result<bool> {
    for url in &remote.urls {
        let insecure = |authority: &str| context.allows_plain_http(authority).unwrap_or(false);
        let is_ours = url.starts_with("parler:");
        let Some(address) = is_ours.then(|| Address::parse(url, insecure).ok()).flatten() else {
            continue;
        };
        let its_hub = match address.hub {
            AddressHub::Configured => context.hub()?,
            AddressHub::At(address) => HubChoice::At(address).recognised(&context.home)?,
        };
        let is_it = match address.destination {
            Destination::Room(its) => its.key() == room.key(),
            // Who is meant only the hub can tell; it is not asked where no direct room is.
            Destination::Dm(agent) if room.is_direct() && its_hub == *hub => {
                context.direct_room_if_any(&agent)?.is_some_and(|its| its == *room)
            }
            Destination::Dm(_) | Destination::Service(_) => false,
        };
        if is_it && its_hub == *hub {
            return Ok(true);
        }
    }
    Ok(false)
}

fn tracked(repository: &Repository, remote: &RemoteConfig, name: &RefName) -> Result<Option<Oid>> {
    match remote.tracking_ref(name.as_str()) {
        Some(local) => Ok(repository.find_ref(&local)?),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_as_git_reads_it() {
        let parse = |values: &[&str]| Leases::parse(&values.iter().map(|&value| value.to_owned()).collect::<Vec<_>>());
        let named = |name: &str, expected: Option<&str>| Named {
            name: name.to_owned(),
            expected: expected.map(str::to_owned),
        };
        assert_eq!(
            parse(&["", "a", "b:", "c:d~1"]).unwrap(),
            Leases {
                all: true,
                named: vec![named("a", None), named("b", Some("")), named("c", Some("d~1"))],
            }
        );
        assert_eq!(parse(&[]).unwrap(), Leases::default());
        assert!(parse(&[":x"]).is_err());
    }
}
