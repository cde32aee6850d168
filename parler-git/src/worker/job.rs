//! A job as its worker was given it: who asks, which commit it is about, what it was asked for. Believes no word that its
//! requester has not signed.

use git_remote_parler::signing::sign_for_room;
use parler_client::Client;
use parler_protocol::api::ClaimedJob;
use parler_protocol::{
    BundleId, BundleRefName, DispatchPart, Draft, Fence, Head, HubId, Message, MessageId, Oid, Part, RefName, RoomName,
    Sender, Seq, ServiceName, Signed,
};
use serde_json::{Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::log_entry::LogEntry;
use crate::posting::mentions;

/// The branch of a commit that came without one.
const UNNAMED: &str = "job";

/// A job that this worker has.
pub(crate) struct Job {
    pub(crate) service: ServiceName,
    pub(crate) room: RoomName,
    pub(crate) fence: Fence,
    pub(crate) attempt: u32,
    /// The id of its message.
    pub(crate) id: MessageId,
    /// Who asked for it.
    pub(crate) requester: Sender,
    /// The services above it, and its own.
    pub(crate) chain: Vec<ServiceName>,
    /// What it brings, if anything.
    pub(crate) code: Option<Code>,
    /// Its message.
    pub(crate) entry: LogEntry,
}

/// The commit that a job is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Code {
    pub(crate) bundle: BundleId,
    pub(crate) commit: Oid,
    /// The branch, as its requester calls it.
    pub(crate) branch: RefName,
}

/// What can be said of a job that is not to be worked on.
pub(crate) struct Refused {
    pub(crate) id: MessageId,
    pub(crate) requester: Sender,
    pub(crate) error: Error,
}

impl Job {
    /// The job's number.
    pub(crate) fn seq(&self) -> Seq {
        self.fence.seq
    }

    /// Reads what the hub gave. An error that can be told to nobody: what it gave is no message.
    pub(crate) fn read(claimed: ClaimedJob, hub: &HubId) -> Result<std::result::Result<Self, Refused>> {
        let room = claimed.service.room();
        let entry = LogEntry::read(claimed.job, hub, &room, claimed.seq);
        let Some(message) = entry.unverified().cloned() else {
            let (_, why) = entry.fold_reason().unwrap_or_default();
            let what = format_args!(
                "the hub gave job {} of '{}', which is no message: {why}",
                claimed.seq, claimed.service
            );
            return Err(Error::new(ErrorKind::Refused, what));
        };
        let refused = |error: Error| {
            Ok(Err(Refused {
                id: message.id,
                requester: message.from.clone(),
                error,
            }))
        };
        let signed = entry.message().filter(|(_, verdict)| verdict.is_valid());
        if signed.is_none() || message.seq != claimed.seq {
            let (_, why) = entry
                .fold_reason()
                .unwrap_or((None, "it is not signed for this room".to_owned()));
            return refused(Error::new(
                ErrorKind::Refused,
                format_args!("the job is not its requester's: {why}"),
            ));
        }
        let asked = message.parts.iter().find_map(|part| match part {
            Part::Dispatch(part) => Some(part),
            _ => None,
        });
        let Some(DispatchPart { chain, .. }) = asked.filter(|part| part.role.parse() == Ok(claimed.service.clone()))
        else {
            return refused(Error::new(ErrorKind::Refused, "the job is for another service"));
        };
        let code = match code_of(&message) {
            Ok(code) => code,
            Err(error) => return refused(error),
        };
        Ok(Ok(Self {
            room,
            fence: Fence {
                seq: claimed.seq,
                number: claimed.fence,
            },
            attempt: claimed.attempt,
            id: message.id,
            requester: message.from.clone(),
            chain: chain.iter().cloned().chain([claimed.service.clone()]).collect(),
            service: claimed.service,
            code,
            entry,
        }))
    }

    /// The job for programs: its message, and what its worker knows besides.
    pub(crate) fn to_json(&self) -> Value {
        let mut value = self.entry.to_json();
        value["service"] = json!(self.service);
        value["attempt"] = json!(self.attempt);
        value["commit"] = json!(self.code.as_ref().map(|code| code.commit));
        value["branch"] = json!(self.code.as_ref().map(|code| short(&code.branch)));
        value
    }

    /// What this worker says of it.
    pub(crate) fn receipt(&self, client: &Client, head: &Head, parts: Vec<Part>) -> Result<Signed> {
        answer(client, head, &self.room, self.id, &self.requester, parts)
    }
}

/// A signed answer to a job's message.
pub(crate) fn answer(
    client: &Client,
    head: &Head,
    room: &RoomName,
    id: MessageId,
    requester: &Sender,
    parts: Vec<Part>,
) -> Result<Signed> {
    let mut draft = Draft::new(parts);
    draft.mentions = mentions([requester.name.as_str()]);
    draft.reply_to = Some(id);
    Ok(sign_for_room(client, &client.hub_id()?, room, head, &draft))
}

/// A branch as people call it.
pub(crate) fn short(branch: &RefName) -> &str {
    branch.branch().unwrap_or(branch.as_str())
}

/// The commit that a job's message brings, or names among what the room has.
fn code_of(message: &Message) -> Result<Option<Code>> {
    let bundle = message.parts.iter().find_map(|part| match part {
        Part::Bundle(part) => Some(part),
        _ => None,
    });
    let Some(bundle) = bundle else { return Ok(None) };
    let moved = message.parts.iter().find_map(|part| match part {
        Part::Refs(part) => part.updates.iter().find(|update| update.new.is_some()),
        _ => None,
    });
    let moved = moved.and_then(|update| Some((update.name.clone(), update.peeled.or(update.new)?)));
    // Without a ref: what the bundle calls its first tip.
    let named = bundle.named_refs().next().map(|tip| match &tip.name {
        BundleRefName::Ref(name) => (name.clone(), tip.oid),
        BundleRefName::Head => (unnamed(), tip.oid),
    });
    let Some((name, commit)) = moved.or(named) else {
        return Err(Error::new(
            ErrorKind::Refused,
            "the job's bundle does not say which commit it is about",
        ));
    };
    Ok(Some(Code {
        bundle: bundle.blob,
        commit,
        branch: branch_of(&name),
    }))
}

fn unnamed() -> RefName {
    branch_named(UNNAMED)
}

fn branch_named(name: &str) -> RefName {
    let named = format!("refs/heads/{name}").parse();
    named.unwrap_or_else(|_| format!("refs/heads/{UNNAMED}").parse().expect("a branch's name"))
}

/// The branch to check out for a ref: of a request that of its requester, of a tag one of its name.
fn branch_of(name: &RefName) -> RefName {
    let name = name.requested().unwrap_or_else(|| name.clone());
    match (name.branch(), name.as_str().strip_prefix("refs/tags/")) {
        (Some(_), _) => name,
        (None, Some(tag)) => branch_named(tag),
        (None, None) => unnamed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_branch_that_its_requester_knows() {
        for (name, branch) in [
            ("refs/requests/alice/heads/topic/x", "refs/heads/topic/x"),
            ("refs/requests/a@b%2fc/heads/main", "refs/heads/main"),
            ("refs/requests/alice/tags/v1", "refs/heads/v1"),
            ("refs/heads/main", "refs/heads/main"),
            ("refs/tags/v1", "refs/heads/v1"),
            ("refs/notes/x", "refs/heads/job"),
        ] {
            assert_eq!(branch_of(&name.parse().unwrap()).as_str(), branch, "{name}");
        }
    }
}
