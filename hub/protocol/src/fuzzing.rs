//! What must hold of any bytes that are read as the words of this crate. Called by the targets of `tests/fuzz` and, with
//! their seeds, by ordinary tests; in no other build.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use serde_json::Value;

use crate::{
    AccessToken, AgentId, AgentKey, AgentName, BundleId, BundleIdPrefix, BundleRefName, Challenge, DroppedMessage,
    Fingerprint, Head, HubId, InviteCode, InviteId, Message, MessageId, Oid, Part, RefName, RepositoryId, ReviewText,
    RoomName, RuleName, RunUrl, Seq, ServiceName, StatusContext, StatusText, TokenName, TreePath, UploadId, Verdict,
    canonical_json, is_hidden, parse_json, part_kind, verify,
};

/// The hub that the seeds are of, as in `fixtures/wire`.
const HUB: HubId = HubId::from_bytes([0x42; 16]);
/// The secret of the key that signed the seeds.
const SIGNER: [u8; 32] = [7; 32];

/// A message as a hub would return it. What is believed of it must be what its signer wrote.
pub fn signed_message(bytes: &[u8]) {
    if let Ok(value) = parse_json(bytes) {
        let canonical = canonical_json(&value);
        let read = parse_json(&canonical).expect("canonical JSON is JSON");
        assert_eq!(read, value, "canonical JSON says something else");
        assert_eq!(canonical_json(&read), canonical, "there are two canonical forms");
    }
    let note = DroppedMessage::parse(bytes);
    if let Some(note) = &note {
        assert_eq!(DroppedMessage::parse(&note.to_bytes()).as_ref(), Some(note));
    }
    let Ok(message) = Message::parse(bytes) else { return };
    assert!(note.is_none(), "a message that is a note that there is none");
    for part in &message.parts {
        assert_eq!(
            &Part::from_value(&part.to_value()),
            part,
            "a part is written as another"
        );
    }
    if verify(&message, &HUB) == Verdict::Valid {
        assert_signed(&message);
    }
}

/// Nobody who tries knows the signer's secret: what is valid is what it signed, or signed by a key of the trier's own.
fn assert_signed(message: &Message) {
    let golden = include_bytes!("../../../fixtures/wire/message.json");
    let golden = Message::parse(golden.trim_ascii()).expect("the golden file is a message");
    if message.from.id != AgentKey::from_random(SIGNER).id() {
        return;
    }
    // The first signature counts; those after it are covered by none, and say nothing.
    let signed = |message: &Message| -> Vec<Value> {
        let parts = message.raw_parts().iter();
        parts.filter(|part| part["kind"] != part_kind::SIG).cloned().collect()
    };
    assert_eq!(signed(message), signed(&golden));
    assert_eq!(
        (
            &message.id,
            &message.room,
            &message.from,
            &message.mentions,
            &message.reply_to
        ),
        (
            &golden.id,
            &golden.room,
            &golden.from,
            &golden.mentions,
            &golden.reply_to
        )
    );
}

/// A text as each of the names and ids of this crate.
pub fn names(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let read = [
        reads_back::<AgentId>(text),
        reads_back::<BundleId>(text),
        reads_back::<BundleIdPrefix>(text),
        written_back::<BundleRefName>(text),
        reads_back::<Head>(text),
        reads_back::<HubId>(text),
        reads_back::<InviteId>(text),
        reads_back::<MessageId>(text),
        reads_back::<Oid>(text),
        written_back::<RefName>(text),
        reads_back::<RoomName>(text),
        reads_back::<Seq>(text),
        reads_back::<ServiceName>(text),
        reads_back::<TokenName>(text),
        reads_back::<RepositoryId>(text),
        reads_back::<StatusContext>(text),
        reads_back::<UploadId>(text),
    ];
    // What is put into paths, commands and files.
    for name in read.iter().flatten() {
        assert!(!name.starts_with('-'), "{name:?} could be an option");
    }
    // Said, or only sent.
    reads_back::<AgentName>(text);
    reads_back::<Challenge>(text);
    reads_back::<Fingerprint>(text);
    reads_back::<RuleName>(text);
    reads_back::<RunUrl>(text);
    reads_back::<StatusText>(text);
    written_back::<ReviewText>(text);
    written_back::<TreePath>(text);
    if let Some(id) = RepositoryId::of_address(text) {
        let again = RepositoryId::of_address(&format!("https://{id}"));
        assert_eq!(again.as_ref(), Some(&id), "an address that is another repository's");
    }
    // Secrets, which no `Debug` shows.
    if let Ok(code) = text.parse::<InviteCode>() {
        assert_eq!(code.as_str().parse::<InviteCode>().as_ref(), Ok(&code));
        assert!(code.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
    if let Ok(token) = text.parse::<AccessToken>() {
        assert!(!format!("{token:?}").contains(text));
    }
}

/// Whatever is taken is written as something that means the same, and of which every character is seen.
fn reads_back<T>(text: &str) -> Option<String>
where
    T: FromStr + Display + Debug + PartialEq,
{
    let written = written_back::<T>(text)?;
    assert!(!written.chars().any(is_hidden), "{written:?} hides something");
    Some(written)
}

/// The same of what git may call anything: it is escaped where it is shown.
fn written_back<T>(text: &str) -> Option<String>
where
    T: FromStr + Display + Debug + PartialEq,
{
    let read: T = text.parse().ok()?;
    let written = read.to_string();
    assert_eq!(
        written.parse::<T>().ok().as_ref(),
        Some(&read),
        "{written:?} of {text:?}"
    );
    Some(written)
}

#[cfg(test)]
mod tests {
    use parler_harness::each_seed;

    #[test]
    fn the_seeds_of_signed_messages_hold() {
        each_seed("signed_message", super::signed_message);
    }

    #[test]
    fn the_seeds_of_names_hold() {
        each_seed("names", super::names);
    }
}
