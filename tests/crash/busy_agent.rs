//! An agent that posts without a pause, remembers what was acknowledged, and repeats what was not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use parler_client::{BlobSource, ClientError};
use parler_harness::RawClient;
use parler_protocol::{BundleId, Draft, Head, MessageId, Oid, Part, RefName, RoomName, Seq, TextPart};

use super::stage::{bundle_of, move_of};

/// One thing that the hub acknowledged.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    pub(crate) id: MessageId,
    pub(crate) seq: Seq,
    pub(crate) blob: Option<BundleId>,
}

/// What an agent did.
pub(crate) struct Work {
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// Its branch, and where it is by the last acknowledgement.
    pub(crate) branch: RefName,
    pub(crate) at: Option<Oid>,
}

/// An agent with a branch of its own.
pub(crate) struct BusyAgent {
    client: RawClient,
    room: RoomName,
    branch: RefName,
    at: Option<Oid>,
    number: u64,
    posted: u64,
    head: Head,
}

impl BusyAgent {
    pub(crate) fn new(client: RawClient, room: RoomName, number: u64) -> Self {
        let branch = format!("refs/heads/agent{number}").parse().unwrap();
        let head = client.head(&room);
        Self {
            client,
            room,
            branch,
            at: None,
            number,
            posted: 0,
            head,
        }
    }

    /// Posts until it is told to stop. Says so of every acknowledgement on the channel.
    pub(crate) fn work(mut self, stop: &AtomicBool, progress: &Sender<()>) -> Work {
        let mut acknowledged = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            acknowledged.push(self.post_one());
            // The test that listens may be at its end already.
            let _ = progress.send(());
        }
        Work {
            acknowledged,
            branch: self.branch,
            at: self.at,
        }
    }

    fn post_one(&mut self) -> Acknowledged {
        self.posted += 1;
        let text = format!("message {} of agent {}", self.posted, self.number);
        // Two of three are talk. Of the pushes every fifth is too large for the database and becomes a file.
        if !self.posted.is_multiple_of(3) {
            return self.send(vec![TextPart { text }.into()], None);
        }
        let filler = if self.posted.is_multiple_of(5) { 100_000 } else { 700 };
        let tip = self.oid_of_push();
        let bytes: Arc<[u8]> = format!(
            "# v2 git bundle\n{tip} {}\n\nPACK{text}{}",
            self.branch,
            "x".repeat(filler)
        )
        .into_bytes()
        .into();
        let parts = vec![
            move_of(self.branch.clone(), self.at, tip),
            bundle_of(self.branch.clone(), tip, &bytes),
        ];
        let acknowledged = self.send(parts, Some(&bytes));
        self.at = Some(tip);
        acknowledged
    }

    /// An object id that no other push has.
    fn oid_of_push(&self) -> Oid {
        format!("{:020x}{:020x}", self.number, self.posted).parse().unwrap()
    }

    /// Posts a message until it is known what became of it.
    fn send(&mut self, parts: Vec<Part>, blob: Option<&Arc<[u8]>>) -> Acknowledged {
        let draft = Draft::new(parts);
        let signed = self.client.sign_draft(&self.room, &self.head, &draft);
        let mut repeated = 0;
        loop {
            let source = blob.map(|blob| blob as &dyn BlobSource);
            match self.client.calls.post(&self.room, &signed, None, source) {
                Ok(posted) => {
                    assert_eq!(posted.id, draft.id);
                    self.head = posted.head;
                    return Acknowledged {
                        id: posted.id,
                        seq: posted.seq,
                        blob: blob.map(|bytes| BundleId::of(bytes)),
                    };
                }
                Err(ClientError::Problem(problem)) => panic!("agent {}: {problem:?}", self.number),
                // The hub is away. The same message again, under the same id, until it answers.
                Err(_) => repeated += 1,
            }
            assert!(repeated < 1_000, "the hub never came back");
        }
    }
}
