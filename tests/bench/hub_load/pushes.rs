//! Messages that bring a bundle of 1 KiB and move a branch, as a push of one commit does.

use std::thread;
use std::time::{Duration, Instant};

use parler_harness::World;
use parler_protocol::{BundleId, BundlePart, BundleRef, MessageId, ObjectFormat, Oid, RefUpdate, RefsPart, paths};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Extent;
use crate::audit::{Acknowledged, acknowledged, audit};
use crate::connection::Connection;
use crate::report::{Report, Times};
use crate::seats::{Signer, seats};
use crate::server::Server;

const ROUND: Duration = Duration::from_secs(10);
const CLIENTS: usize = 64;
/// Of each bundle.
const BUNDLE_BYTES: usize = 1 << 10; // 1 KiB

/// A signed push of a branch of its own, and the bundle.
pub(crate) struct Push {
    id: MessageId,
    message: Vec<u8>,
    parts: String,
    pub(crate) bundle: Vec<u8>,
}

/// The bundle of the how manieth push of a client. Nobody else has it.
pub(crate) fn bundle(client: usize, number: usize, size: usize) -> Vec<u8> {
    let mut bundle = vec![b'.'; size];
    let mark = format!("{client} {number}\n");
    bundle[size - mark.len()..].copy_from_slice(mark.as_bytes());
    bundle
}

impl Push {
    /// The how manieth of this client, each on the one before it.
    pub(crate) fn new(signer: &Signer, client: usize, number: usize, size: usize) -> Self {
        let bundle = bundle(client, number, size);
        let oid = |number: usize| -> Oid { format!("{:020x}{:020x}", client + 1, number + 1).parse().unwrap() };
        let name = format!("refs/heads/of-{client}");
        let brings = BundlePart {
            blob: BundleId::of(&bundle),
            vcs: "git".to_owned(),
            size: size as u64,
            media_type: None,
            tip: None,
            base: None,
            summary: None,
            refs: vec![BundleRef {
                name: name.parse().unwrap(),
                oid: oid(number),
            }],
            prerequisites: Vec::new(),
            object_format: Some(ObjectFormat::Sha1),
            commits: None,
            objects: None,
            needs: Vec::new(),
            base_hint: None,
        };
        let moves = RefsPart {
            updates: vec![RefUpdate {
                name: name.parse().unwrap(),
                old: number.checked_sub(1).map(oid),
                new: Some(oid(number)),
                forced: false,
                peeled: None,
            }],
            atomic: false,
            object_format: ObjectFormat::Sha1,
            head: None,
            base_hint: None,
        };
        let (id, message) = signer.sign(vec![brings.into(), moves.into()]);
        #[derive(Deserialize)]
        struct Signed<'m> {
            #[serde(borrow)]
            parts: &'m RawValue,
        }
        let signed: Signed<'_> = serde_json::from_slice(&message).unwrap();
        Self {
            id,
            parts: signed.parts.get().to_owned(),
            message,
            bundle,
        }
    }

    /// Sends it, and says what was answered.
    pub(crate) fn send(self, connection: &mut Connection, first: &str, last: &mut u64) -> Acknowledged {
        let fields = format!(
            "Content-Type: application/vnd.parler.message-with-blob\r\nParler-Message-Length: {}\r\n",
            self.message.len()
        );
        let answer = connection.ask(first, &fields, &[&self.message, &self.bundle]);
        acknowledged(&answer.expect(201), self.id, last, self.parts)
    }
}

pub(crate) fn run(world: &World, extent: Extent, report: &mut Report) {
    let server = Server::start(world, "pushes");
    let seats = seats(&server.hub, CLIENTS);
    let room = seats[0].make_rooms("pushed", 1).remove(0);
    seats[0].let_in(&room, &seats[1..]);
    let first = format!("POST {}", paths::messages(&room));
    let before = server.processor_us();
    let begun = Instant::now();
    let until = begun + extent.time(ROUND);
    let client = |number: usize, signer: Signer, mut connection: Connection| {
        let mut last = 0;
        let (mut sent, mut times) = (Vec::new(), Vec::new());
        while Instant::now() < until {
            let push = Push::new(&signer, number, sent.len(), BUNDLE_BYTES);
            let asked = Instant::now();
            sent.push(push.send(&mut connection, &first, &mut last));
            times.push(asked.elapsed());
        }
        (sent, times)
    };
    let client = &client;
    let clients: Vec<_> = thread::scope(|scope| {
        let threads = seats.iter().enumerate();
        let threads = threads.map(|(number, seat)| {
            let (signer, connection) = (seat.signer(&room), seat.connect());
            scope.spawn(move || client(number, signer, connection))
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let took = begun.elapsed().as_secs_f64();
    let spent = server.processor_us() - before;
    let (sent, times): (Vec<_>, Vec<_>) = clients.into_iter().unzip();
    // On a slow machine not everybody had a turn.
    let pushing: Vec<_> = (0..CLIENTS).filter(|number| !sent[*number].is_empty()).collect();
    let (sent, mut times): (Vec<Acknowledged>, _) = (sent.concat(), Times(times.concat()));
    report.row(
        "pushes of 1 KiB, 64 clients, 1 room",
        ">= 4,000/s",
        format!(
            "{:.0}/s, {}, {:.0} us a push",
            sent.len() as f64 / took,
            times.shown(),
            spent / sent.len() as f64
        ),
    );
    let mut reader = seats[0].connect();
    audit(&mut reader, &room, &sent);
    // A bundle of each client comes back as it was sent.
    for number in pushing {
        let bundle = bundle(number, 0, BUNDLE_BYTES);
        let answer = reader.get(&paths::blob(&room, &BundleId::of(&bundle))).expect(200);
        assert_eq!(answer, bundle);
    }
}
