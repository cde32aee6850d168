//! A disk that has no space for one of the hub's files: what needs it is refused with 507, nothing of it is stored, all else
//! goes on, and the same request is done when there is space. By the kernel's own error at each kind of call.

use std::fs;

use parler_harness::{Call, CallKind, Fault, HubProcess, PlainAnswer, PlainHttp, SystemCalls, read_trace};
use parler_protocol::{BundleId, FilePart, MessageId, Part, TextPart, paths};
use serde_json::json;

use super::stage::{Stage, assert_checked, forget};

/// A blob over the hub's limit for the database, bytes.
const FILE_BYTES: usize = 100_000;
/// Messages with blobs of 60 kB: more than the log holds before it is copied into the database.
const FILLING: usize = 280;

/// What needs space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Message,
    MessageWithBlob,
    BeginUpload,
    UploadBytes,
    MessageOfUpload,
}

struct Bench {
    hub: HubProcess,
    http: PlainHttp,
    messages: String,
    uploads: String,
}

impl Bench {
    fn head(&self) -> u64 {
        let page = self.http.get(&format!("{}?limit=0", self.messages));
        page.json()["head"]["seq"].as_u64().unwrap()
    }

    fn post_json(&self, path: &str, fields: &[(&str, &str)], body: &serde_json::Value) -> PlainAnswer {
        let fields = [&[("content-type", "application/json")], fields].concat();
        let body = serde_json::to_vec(body).unwrap();
        self.http.ask("POST", path, &fields, &body).unwrap()
    }

    fn begin_upload(&self, key: &str) -> PlainAnswer {
        let key = [(paths::IDEMPOTENCY_KEY_HEADER, key)];
        self.post_json(&self.uploads, &key, &json!({ "size": FILE_BYTES }))
    }

    fn upload_bytes(&self, upload: &str, bytes: &[u8]) -> PlainAnswer {
        let fields = [
            ("content-type", paths::PARTIAL_UPLOAD_TYPE),
            (paths::UPLOAD_OFFSET_HEADER, "0"),
        ];
        let path = format!("{}/{upload}", self.uploads);
        self.http.ask("PATCH", &path, &fields, bytes).unwrap()
    }

    /// A request that can be made again and again.
    fn prepared(&self, request: Request, bytes: &[u8]) -> Box<dyn Fn(&Self) -> PlainAnswer> {
        let id = MessageId::generate();
        let text: Part = TextPart {
            text: "x".repeat(20_000),
        }
        .into();
        let with_file = json!({ "id": id, "parts": [file(bytes).to_value()] });
        let owned = bytes.to_vec();
        match request {
            Request::Message => {
                let body = json!({ "id": id, "parts": [text.to_value()] });
                Box::new(move |bench| bench.post_json(&bench.messages, &[], &body))
            }
            Request::MessageWithBlob => {
                let message = serde_json::to_vec(&with_file).unwrap();
                Box::new(move |bench| bench.post_with_blob(&message, &owned))
            }
            Request::BeginUpload => Box::new(move |bench| bench.begin_upload(&id.to_string())),
            Request::UploadBytes => {
                let upload = uploaded(&self.begin_upload(&id.to_string()));
                Box::new(move |bench| bench.upload_bytes(&upload, &owned))
            }
            Request::MessageOfUpload => {
                let upload = uploaded(&self.begin_upload(&id.to_string()));
                assert_eq!(self.upload_bytes(&upload, bytes).status, 200);
                Box::new(move |bench| bench.post_json(&bench.messages, &[(paths::UPLOAD_HEADER, &upload)], &with_file))
            }
        }
    }

    fn post_with_blob(&self, message: &[u8], bytes: &[u8]) -> PlainAnswer {
        let length = message.len().to_string();
        let fields = [
            ("content-type", paths::MESSAGE_WITH_BLOB_TYPE),
            (paths::MESSAGE_LENGTH_HEADER, length.as_str()),
        ];
        let body = [message, bytes].concat();
        self.http.ask("POST", &self.messages, &fields, &body).unwrap()
    }
}

fn uploaded(begun: &PlainAnswer) -> String {
    assert!(matches!(begun.status, 200 | 201), "{begun:?}");
    begun.json()["upload"].as_str().unwrap().to_owned()
}

fn file(bytes: &[u8]) -> Part {
    FilePart {
        blob: BundleId::of(bytes),
        size: bytes.len() as u64,
        name: "file".into(),
        media_type: None,
        summary: None,
    }
    .into()
}

/// A hub for which these calls on this path fail while the file is there that is named beside it.
fn bench(stage: &Stage, calls: &SystemCalls, name: &str, call: CallKind, path: &str) -> Bench {
    let mut hub = stage.hub(name);
    let fault = Fault {
        call,
        nth: 1,
        and_on: true,
        error: "ENOSPC",
        path: path.to_owned(),
    };
    let trace = hub.data().with_file_name("trace");
    hub.set_variables(calls.variables_while(&trace, &fault, &hub.data().with_file_name("full")));
    hub.restart();
    Bench {
        http: PlainHttp {
            authority: hub.authority().to_owned(),
            token: stage.seats[0].token.clone(),
        },
        messages: paths::messages(&stage.room),
        uploads: paths::uploads(&stage.room),
        hub,
    }
}

impl Bench {
    fn fill(&self) {
        fs::write(self.hub.data().with_file_name("full"), "").unwrap();
    }

    fn empty(&self) {
        fs::remove_file(self.hub.data().with_file_name("full")).unwrap();
    }

    fn faults(&self) -> usize {
        let calls = read_trace(&self.hub.data().with_file_name("trace"));
        calls.iter().filter(|call| call.kind == CallKind::Fault).count()
    }
}

#[test]
fn what_there_is_no_space_for_is_refused_and_done_when_there_is() {
    let stage = Stage::new();
    let calls = SystemCalls::watched_in(&stage.world);
    let cases = [
        (CallKind::Write, "/hub.db-wal$", Request::Message),
        (CallKind::Write, "/hub.db-wal$", Request::MessageWithBlob),
        (CallKind::Write, "/hub.db-wal$", Request::MessageOfUpload),
        (CallKind::Make, "/blobs/tmp/", Request::MessageWithBlob),
        (CallKind::Write, "/blobs/tmp/", Request::MessageWithBlob),
        (CallKind::Rename, "/blobs/", Request::MessageWithBlob),
        (CallKind::Make, "/blobs/uploads/", Request::BeginUpload),
        (CallKind::Write, ".json$", Request::BeginUpload),
        (CallKind::Write, "/blobs/uploads/", Request::UploadBytes),
        (CallKind::Link, "/blobs/", Request::MessageOfUpload),
        (CallKind::Rename, "/blobs/", Request::MessageOfUpload),
    ];
    for (number, (call, path, request)) in cases.into_iter().enumerate() {
        let told = format!("{call:?} of {path} for {request:?}");
        let bench = bench(&stage, &calls, &format!("full-{number}"), call, path);
        let mut bytes = vec![b'b'; FILE_BYTES];
        bytes[0] = u8::try_from(number).unwrap();
        let ask = bench.prepared(request, &bytes);
        let head = bench.head();

        bench.fill();
        for _ in 0..2 {
            let refused = ask(&bench);
            assert_eq!(
                (refused.status, refused.code().as_str()),
                (507, "storage_full"),
                "{told}: {}",
                String::from_utf8_lossy(&refused.body)
            );
            assert_eq!(bench.head(), head, "{told}");
        }
        assert!(bench.faults() >= 2, "{told}");
        // Others do not need that file, or can wait.
        if !path.contains("hub.db") {
            let other = bench.prepared(Request::Message, b"");
            assert_eq!(other(&bench).status, 201, "{told}");
        }
        bench.empty();

        let done = ask(&bench);
        assert!(
            matches!(done.status, 200 | 201),
            "{told}: {}",
            String::from_utf8_lossy(&done.body)
        );
        if !matches!(request, Request::BeginUpload | Request::UploadBytes) {
            assert!(bench.head() > head, "{told}");
        }
        if matches!(request, Request::MessageWithBlob | Request::MessageOfUpload) {
            let blob = paths::blob(&stage.room, &BundleId::of(&bytes));
            assert!(bench.http.get(&blob).body == bytes, "{told}");
        }
        let mut bench = bench;
        assert!(bench.hub.terminate().success(), "{told}");
        if !matches!(request, Request::BeginUpload | Request::UploadBytes) {
            assert_checked(bench.hub.data());
        }
        forget(bench.hub);
    }
}

/// The log cannot be copied into the database: everything is in the log still.
#[test]
fn a_database_that_cannot_grow_holds_nobody_up() {
    let stage = Stage::new();
    let calls = SystemCalls::watched_in(&stage.world);
    let mut bench = bench(&stage, &calls, "checkpoint", CallKind::Write, "/hub.db$");
    let post = |bench: &Bench, number: usize| {
        let mut bytes = vec![b'c'; 60_000];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        let message = json!({ "id": MessageId::generate(), "parts": [file(&bytes).to_value()] });
        let message = serde_json::to_vec(&message).unwrap();
        assert_eq!(bench.post_with_blob(&message, &bytes).status, 201);
    };
    bench.fill();
    (0..FILLING).for_each(|number| post(&bench, number));
    assert!(bench.faults() > 0, "the log was never copied");
    bench.empty();
    post(&bench, FILLING);
    assert_eq!(bench.head(), FILLING as u64 + 1);
    assert!(bench.hub.terminate().success());
    let is_copied = |call: &Call| call.kind == CallKind::Write && call.what.ends_with("/hub.db") && call.result > 0;
    let trace = read_trace(&bench.hub.data().with_file_name("trace"));
    assert!(trace.iter().any(is_copied));
    assert_checked(bench.hub.data());
    bench.hub.set_variables(Vec::new());
    bench.hub.restart();
    assert_eq!(bench.head(), FILLING as u64 + 1);
    forget(bench.hub);
}
