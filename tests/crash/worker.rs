//! One agent of a mixed load: everything that a hub can be asked to store, one after the other. Goes on until it knows what
//! became of each.

pub(crate) mod jobs;

use parler_harness::{Acknowledged, PlainAnswer, PlainHttp};
use parler_protocol::api::{Posted, RefList};
use parler_protocol::{BundleId, Head, MessageId, Oid, Part, RefName, Signed, TextPart, paths};
use serde_json::json;

use self::jobs::JobWork;
use super::load::{Lives, Progress};
use super::stage::{Seat, Stage, bundle_of, move_of};

/// A blob over the hub's limit for the database, bytes.
const FILE_BYTES: usize = 100_000;
/// One that comes in several requests, and one of those.
const UPLOAD_BYTES: usize = 300_000;
const PART_BYTES: usize = 150_000;
/// How often a fault of the hub is answered with the same request.
const PATIENCE: u32 = 50;

/// How much is done.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) workers: usize,
    /// Or as many as it takes until the hub was killed often enough.
    pub(crate) rounds: u32,
    /// How often it is killed.
    pub(crate) kills: u32,
    /// Pushes with a bundle of this size, which the database holds, in each round.
    pub(crate) small_pushes: u32,
    pub(crate) small_bytes: usize,
    /// Whether jobs are worked on as well.
    pub(crate) jobs: bool,
}

impl Plan {
    /// Some of everything.
    pub(crate) const MIXED: Self = Self {
        workers: 3,
        rounds: 2,
        kills: 0,
        small_pushes: 1,
        small_bytes: 700,
        jobs: true,
    };
    /// One of everything.
    pub(crate) const SHORT: Self = Self {
        workers: 2,
        rounds: 1,
        ..Self::MIXED
    };
    /// So much that the log is copied into the database.
    pub(crate) const HEAVY: Self = Self {
        rounds: 1,
        small_pushes: 110,
        small_bytes: 60_000,
        ..Self::MIXED
    };
}

/// What an agent did.
pub(crate) struct Work {
    pub(crate) http: PlainHttp,
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// Its branch, and where it is by the last acknowledgement.
    pub(crate) branch: RefName,
    pub(crate) at: Option<Oid>,
    /// The cursor that the hub confirmed.
    pub(crate) cursor: u64,
    pub(crate) jobs: JobWork,
    /// The newest message that the hub's first life acknowledged to it.
    pub(crate) acknowledged_in_first_life: u64,
}

/// How a blob travels.
#[derive(Clone, Copy)]
enum Travels {
    WithMessage,
    Before,
}

pub(crate) struct Worker<'a> {
    stage: &'a Stage,
    seat: &'a Seat,
    lives: &'a Lives,
    number: u64,
    posted: u64,
    head: Head,
    work: Work,
    progress: Progress,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        stage: &'a Stage,
        seat: &'a Seat,
        number: u64,
        authority: &str,
        lives: &'a Lives,
        progress: Progress,
    ) -> Self {
        let work = Work {
            http: PlainHttp {
                authority: authority.to_owned(),
                token: seat.token.clone(),
            },
            acknowledged: Vec::new(),
            branch: format!("refs/heads/agent{number}").parse().unwrap(),
            at: None,
            cursor: 0,
            jobs: JobWork::new(stage),
            acknowledged_in_first_life: 0,
        };
        Self {
            stage,
            seat,
            lives,
            number,
            posted: 0,
            head: stage.head,
            work,
            progress,
        }
    }

    pub(crate) fn work(mut self, plan: &Plan) -> Work {
        for round in 0..plan.rounds {
            if plan.kills > 0 && self.lives.are_over() {
                break;
            }
            let text = format!("round {round} of agent {}", self.number);
            self.post(vec![TextPart { text }.into()], None).unwrap();
            for _ in 0..plan.small_pushes {
                self.push(plan.small_bytes, Travels::WithMessage);
            }
            self.push(FILE_BYTES, Travels::WithMessage);
            self.push(UPLOAD_BYTES, Travels::Before);
            self.race();
            self.acknowledge();
            if plan.jobs {
                self.serve();
            }
        }
        self.work
    }

    /// Moves the agent's own branch with a bundle that nobody else has.
    fn push(&mut self, size: usize, travels: Travels) {
        let tip = self.next_oid();
        let bytes = self.bundle_bytes(tip, size);
        let parts = vec![
            move_of(self.work.branch.clone(), self.work.at, tip),
            bundle_of(self.work.branch.clone(), tip, &bytes),
        ];
        self.post(parts, Some((&bytes, travels)))
            .expect("nobody else moves this branch");
        self.work.at = Some(tip);
    }

    /// Sends other bytes than the message announces, as many. What comes after must not find them.
    fn lie(&self, id: &MessageId, message: &[u8], bytes: &[u8], travels: Travels) {
        let wrong = vec![b'?'; bytes.len()];
        let answer = match travels {
            Travels::WithMessage => self.ask_with_blob(message, &wrong),
            Travels::Before => {
                let upload = self.upload(&wrong, &format!("{id}-wrong"));
                self.ask_json(&[(paths::UPLOAD_HEADER, &upload)], message)
            }
        };
        // Where the hub ended behind it, the upload is gone by now.
        let refused = ["blob_mismatch", "unknown_upload"];
        assert!(refused.contains(&answer.code().as_str()), "{answer:?}");
        let blob = paths::blob(&self.stage.room, &BundleId::of(bytes));
        assert_eq!(self.ask("GET", &blob, &[], b"").status, 404);
    }

    /// Moves a ref that all move, once. Another may be quicker.
    fn race(&mut self) {
        let shared: RefName = "refs/heads/shared".parse().unwrap();
        let answer = self.ask("GET", &paths::refs(&self.stage.room), &[], b"");
        let list: RefList = serde_json::from_slice(&answer.body).unwrap();
        let old = list
            .refs
            .iter()
            .find(|entry| entry.name == shared)
            .map(|entry| entry.oid);
        let new = self.next_oid();
        let parts = vec![move_of(shared, old, new)];
        self.post(parts, None);
    }

    fn acknowledge(&mut self) {
        let seq = self.head.seq.get();
        let body = serde_json::to_vec(&json!({ "cursor": seq })).unwrap();
        let fields = [("content-type", "application/json")];
        let answer = self.ask("PUT", &paths::cursor(&self.stage.room), &fields, &body);
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        self.work.cursor = seq;
    }

    /// An object id that no other push has.
    fn next_oid(&mut self) -> Oid {
        self.posted += 1;
        format!("{:020x}{:020x}", self.number + 1, self.posted).parse().unwrap()
    }

    fn bundle_bytes(&self, tip: Oid, size: usize) -> Vec<u8> {
        let mut bytes = format!("# v2 git bundle\n{tip} {}\n\nPACK", self.work.branch).into_bytes();
        bytes.resize(size, b'x');
        bytes
    }

    /// Posts a message until it is known what became of it. None: it lost a race.
    fn post(&mut self, parts: Vec<Part>, blob: Option<(&[u8], Travels)>) -> Option<Posted> {
        let Signed { id, body } = self.stage.sign(self.seat, &self.head, parts);
        if let Some((bytes, travels)) = blob
            && bytes.len() >= FILE_BYTES
        {
            self.lie(&id, &body, bytes, travels);
        }
        let (life, answer) = loop {
            let life = self.lives.now();
            let answer = match blob {
                None => self.ask_json(&[], &body),
                Some((bytes, Travels::WithMessage)) => self.ask_with_blob(&body, bytes),
                Some((bytes, Travels::Before)) => {
                    let upload = self.upload(bytes, &id.to_string());
                    self.ask_json(&[(paths::UPLOAD_HEADER, &upload)], &body)
                }
            };
            // It may have been removed when a message that was not answered was stored; the repetition needs none.
            if answer.code() != "unknown_upload" {
                break (life, answer);
            }
        };
        if answer.code() == "ref_moved" {
            return None;
        }
        assert!(
            matches!(answer.status, 200 | 201),
            "agent {}: {}",
            self.number,
            String::from_utf8_lossy(&answer.body)
        );
        let posted: Posted = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(posted.id, id);
        self.head = posted.head;
        // The next one does not begin before this one's answers are read.
        if life == 0 && self.lives.now() == 0 {
            self.work.acknowledged_in_first_life = posted.seq.get();
        }
        self.work.acknowledged.push(Acknowledged {
            posted: posted.clone(),
            body,
            key: None,
        });
        self.progress.acknowledged();
        Some(posted)
    }

    /// Uploads bytes, from where the hub has them.
    fn upload(&self, bytes: &[u8], key: &str) -> String {
        let uploads = paths::uploads(&self.stage.room);
        loop {
            let size = serde_json::to_vec(&json!({ "size": bytes.len() })).unwrap();
            let fields = [
                ("content-type", "application/json"),
                (paths::IDEMPOTENCY_KEY_HEADER, key),
            ];
            let begun = self.ask("POST", &uploads, &fields, &size);
            assert!(matches!(begun.status, 200 | 201), "{begun:?}");
            let id = begun.json()["upload"].as_str().unwrap().to_owned();
            let mut offset = begun.json()["offset"].as_u64().unwrap() as usize;
            while offset < bytes.len() {
                let end = bytes.len().min(offset + PART_BYTES);
                let at = offset.to_string();
                let fields = [
                    ("content-type", paths::PARTIAL_UPLOAD_TYPE),
                    (paths::UPLOAD_OFFSET_HEADER, at.as_str()),
                ];
                let answer = self.ask("PATCH", &format!("{uploads}/{id}"), &fields, &bytes[offset..end]);
                match answer.status {
                    200 | 409 => offset = answer.json()["offset"].as_u64().unwrap() as usize,
                    404 => break,
                    _ => panic!("{answer:?}"),
                }
            }
            if offset == bytes.len() {
                return id;
            }
        }
    }

    fn ask_json(&self, fields: &[(&str, &str)], body: &[u8]) -> PlainAnswer {
        let fields = [&[("content-type", "application/json")], fields].concat();
        self.ask("POST", &paths::messages(&self.stage.room), &fields, body)
    }

    fn ask_with_blob(&self, message: &[u8], blob: &[u8]) -> PlainAnswer {
        let length = message.len().to_string();
        let fields = [
            ("content-type", paths::MESSAGE_WITH_BLOB_TYPE),
            (paths::MESSAGE_LENGTH_HEADER, length.as_str()),
        ];
        let path = paths::messages(&self.stage.room);
        self.ask("POST", &path, &fields, &[message, blob].concat())
    }

    /// Asks until there is an answer that is not a fault of the hub.
    fn ask(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> PlainAnswer {
        for _ in 0..PATIENCE {
            let life = self.lives.now();
            match self.work.http.ask(method, path, fields, body) {
                Ok(answer) if answer.status < 500 => return answer,
                // It ends.
                Ok(answer) if answer.status == 503 => self.progress.wait_after(life, self.lives),
                Ok(_) => {}
                Err(_) => self.progress.wait_after(life, self.lives),
            }
        }
        panic!("{method} {path} fails again and again");
    }
}
