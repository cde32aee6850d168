//! What the hub knows of a message and its readers: stored, acknowledged, sent, and what would wake them. Also for those
//! who wait for a change of it. What readers say themselves is in the log.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::extract::RawPathParams;
use axum::http::StatusCode;
use axum::response::Response;
use parler_protocol::api::{Reader, Receipts};
use parler_protocol::{AgentId, BundleId, Head, Message, RoomName, Seq, limits};
use sha2::{Digest, Sha256};

use crate::answer::room_json;
use crate::message_parts::blob_references;
use crate::metrics::Counted;
use crate::problem::Refusal;
use crate::query::Parameters;
use crate::room_call::RoomCall;

/// Bytes of the hash that names a version.
const VERSION_BYTES: usize = 8;

/// `GET /v1/rooms/{room}/messages/{seq}/receipts?wait=&since=`
pub(crate) async fn get(call: RoomCall, params: RawPathParams, mut query: Parameters) -> Result<Response, Refusal> {
    let seq = params
        .iter()
        .find(|(name, _)| *name == "seq")
        .and_then(|(_, seq)| seq.parse::<Seq>().ok());
    let wait = Duration::from_secs(query.take("wait")?.unwrap_or(0)).min(limits::MAX_WAIT);
    let since: Option<String> = query.take("since")?;
    query.finish()?;
    let seq = seq.filter(|seq| *seq != Seq::ZERO).ok_or_else(Refusal::not_found)?;

    // First, so that nothing falls between looking and waiting.
    let mut news = call.state.wake.subscribe(&call.room.key());
    let mut facts = call.state.wake.subscribe_facts(&call.room.key());
    let told = Told::read(&call, seq).await?;
    let (mut receipts, mut head) = told.look(&call).await?;
    if since.as_deref() == Some(receipts.version.as_str()) && !wait.is_zero() {
        let _counted = Counted::one_more(&call.state.metrics.long_polls);
        let deadline = tokio::time::sleep(wait);
        let stopping = call.state.stopping();
        tokio::pin!(deadline, stopping);
        let known = receipts.version.clone();
        while receipts.version == known {
            tokio::select! {
                _ = news.changed() => {}
                () = facts.changed() => {}
                () = &mut deadline => break,
                () = &mut stopping => break,
            }
            (receipts, head) = told.look(&call).await?;
        }
    }
    room_json(StatusCode::OK, &receipts, &head)
}

/// The message, which does not change.
struct Told {
    room: RoomName,
    seq: Seq,
    stored_at: i64,
    author: AgentId,
    /// What there is to fetch.
    blobs: Vec<BundleId>,
}

impl Told {
    async fn read(call: &RoomCall, seq: Seq) -> Result<Self, Refusal> {
        let (agent, before) = (call.principal.agent, Seq::new(seq.get() - 1));
        let page = call
            .run(|| {
                call.store()
                    .read(agent, &call.room, Some(before), 1, limits::MAX_PAGE_BYTES)
            })
            .await?;
        let Some(stored) = page.messages.first() else {
            return Err(call.refusal(Refusal::not_found()).await);
        };
        // What is no longer kept has no readers.
        let Ok(message) = Message::parse(stored) else {
            return Err(call.refusal(Refusal::not_found()).await);
        };
        let references = blob_references(&message.parts);
        Ok(Self {
            room: page.room,
            seq,
            stored_at: message.ts,
            author: message.from.id,
            blobs: BTreeSet::from_iter(references.into_iter().map(|blob| blob.id))
                .into_iter()
                .collect(),
        })
    }

    /// How it stands now. Each time anew it is asked whether the caller is a member.
    async fn look(&self, call: &RoomCall) -> Result<(Receipts, Head), Refusal> {
        // Whoever has left meanwhile does not come back by it.
        let found = call
            .store()
            .readers(call.principal.agent, &call.room, &self.blobs)
            .await?;
        let (presence, key) = (&call.state.presence, call.room.key());
        let others = found.readers.into_iter().filter(|reader| reader.id != self.author);
        let readers: Vec<Reader> = others
            .map(|reader| Reader {
                acknowledged: reader.cursor >= self.seq,
                fetched: (!self.blobs.is_empty()).then_some(reader.fetched_at.is_some()),
                fetched_at: reader.fetched_at,
                last_seen: presence.last_heard(&reader.id).unwrap_or(0).max(reader.last_seen),
                wake: presence.wake_path(&reader.id, &key, call.state.now_ms()),
                id: reader.id,
                name: reader.name,
                role: reader.role,
            })
            .collect();
        let receipts = Receipts {
            room: self.room.clone(),
            seq: self.seq,
            stored_at: self.stored_at,
            version: version(found.head.seq, &readers),
            readers,
        };
        Ok((receipts, found.head))
    }
}

/// The name of what is told: the same after a restart, and another one when anything has changed but the time that somebody
/// was last heard of; of the way in which it would be told, whether that is now.
fn version(head: Seq, readers: &[Reader]) -> String {
    let mut hash = Sha256::new();
    hash.update(head.get().to_be_bytes());
    for reader in readers {
        hash.update(reader.id.as_bytes());
        let has = |is: bool| u8::from(is);
        hash.update([
            has(reader.acknowledged),
            has(reader.fetched == Some(true)),
            has(reader.wake.is_now()),
        ]);
        for name in [Some(&reader.name), reader.role.as_ref()] {
            let name = name.map_or("", parler_protocol::AgentName::as_str);
            hash.update((name.len() as u64).to_be_bytes());
            hash.update(name);
        }
    }
    let digest = hash.finalize();
    digest[..VERSION_BYTES]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
