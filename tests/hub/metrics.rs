//! What the hub counts of itself, and where it tells.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use hyper::Request;
use parler_protocol::{BundleId, ErrorCode, paths};
use rustix::process::Signal;

use crate::support::{Agent, Answer, Push, RunningProgram, oid, request, text_message, until};

const DOCUMENT: &str = include_str!("../../docs/operating.md");

/// An open hub that tells its measurements, and where.
pub(crate) fn measured_hub(data: &std::path::Path) -> (RunningProgram, SocketAddr) {
    let hub = RunningProgram::with(data, |command| {
        command.args(["--open", "--metrics-listen", "127.0.0.1:0"]);
    });
    let line = hub.said[0].strip_prefix("metrics on http://").unwrap();
    let address = line.strip_suffix("/metrics").unwrap().parse().unwrap();
    (hub, address)
}

async fn get(address: SocketAddr, path: &str, host: &str) -> Answer {
    let get = Request::get(path).header("host", host).body("".into()).unwrap();
    request(address, get).await
}

/// The values by name and labels.
pub(crate) async fn measure(address: SocketAddr) -> BTreeMap<String, f64> {
    let answer = get(address, "/metrics", &address.to_string()).await.expect(200);
    assert!(
        answer
            .header("content-type")
            .starts_with("application/openmetrics-text")
    );
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(text.ends_with("# EOF\n"), "{text}");
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn what_happens_is_counted() {
    let directory = tempfile::TempDir::new().unwrap();
    let (hub, metrics) = measured_hub(directory.path());
    let alice = hub.agent("alice").await;
    let room = alice.create_room("secret-room-name").await;
    alice
        .post(&paths::messages(&room.room), &text_message("x"))
        .await
        .expect(201)
        .head();
    for size in [1 << 10, 100 << 10] {
        let bundle = vec![7; size];
        let push = Push::new()
            .branch(&format!("of-{size}"), None, Some(oid('a')))
            .bundle(&bundle)
            .sign(&alice, &room);
        let answer = alice.post_with_blob(&room.room, &push.body, &bundle).await;
        answer.expect(201).head();
        let blob = paths::blob(&room.room, &BundleId::of(&bundle));
        assert_eq!(alice.get(&blob).await.expect(200).body.len(), size);
    }
    alice
        .get("/v1/rooms/secret-elsewhere/refs")
        .await
        .problem(ErrorCode::NotFound);
    alice.get("/secret/path").await.problem(ErrorCode::NotFound);
    let of_a_page = |request: hyper::http::request::Builder| request.header("origin", "http://page.example");
    for (path, status) in [(paths::ROOMS, 403), ("/secret/path", 403)] {
        assert_eq!(alice.send("GET", path, of_a_page, "").await.status, status);
    }
    assert_eq!(
        alice.send("BREW", paths::ROOMS, |request| request, "").await.status,
        405
    );

    let values = measure(metrics).await;
    let value = |name: &str| *values.get(name).unwrap_or_else(|| panic!("no {name} in {values:#?}"));
    let requests = |labels: &str| value(&format!("parler_hub_requests_total{{{labels}}}")) as u64;
    let messages = r#"method="POST",route="/v1/rooms/{room}/messages""#;
    assert_eq!(requests(&format!(r#"{messages},status="2xx""#)), 3);
    assert_eq!(
        value(&format!("parler_hub_answer_seconds_count{{{messages}}}")) as u64,
        3
    );
    assert_eq!(
        requests(r#"method="GET",route="/v1/rooms/{room}/refs",status="4xx""#),
        1
    );
    assert_eq!(requests(r#"method="GET",route="unmatched",status="4xx""#), 2);
    assert_eq!(requests(r#"method="GET",route="/v1/rooms",status="4xx""#), 1);
    assert_eq!(requests(r#"method="other",route="/v1/rooms",status="4xx""#), 1);
    assert_eq!(value("parler_hub_messages_total") as u64, 3);
    assert_eq!(value("parler_hub_blob_received_bytes_total") as u64, 101 << 10);
    assert_eq!(value("parler_hub_blob_sent_bytes_total") as u64, 101 << 10);
    assert!(value("parler_hub_commit_operations_count") >= 5.0);
    assert!(value("parler_hub_commit_seconds_sum") > 0.0);
    assert!(value("parler_hub_database_bytes") > 4096.0);
    assert!(value("parler_hub_disk_bytes") >= value("parler_hub_disk_available_bytes"));
    assert!(value("process_start_time_seconds") > 1.7e9);
    assert!(value("parler_hub_build_info{version=\"0.1.0\"}") > 0.0);
    // Nothing that came from outside is a label, so nobody can make series.
    let names: Vec<_> = values.keys().collect();
    assert!(
        names
            .iter()
            .all(|name| !name.contains("secret") && !name.contains("BREW")),
        "{names:#?}"
    );
    assert!(hub.end(Signal::TERM).0);
}

#[tokio::test]
async fn what_is_open_is_counted_while_it_is() {
    let directory = tempfile::TempDir::new().unwrap();
    let (hub, metrics) = measured_hub(directory.path());
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await.room;
    let open = async |name: &str| measure(metrics).await[&format!("parler_hub_{name}")] as u64;
    // Connections that their client has closed are closed here some time soon.
    until("nothing is open", async || {
        (open("connections").await, open("streams").await) == (0, 0)
    })
    .await;

    let stream = open_request(&alice, &paths::stream(&room)).await;
    let poll = open_request(&alice, &format!("{}?wait=50", paths::messages(&room))).await;
    // Nobody is told when the hub has begun to wait.
    until("somebody waits", async || open("long_polls").await == 1).await;
    until("both are open", async || {
        (open("connections").await, open("streams").await) == (2, 1)
    })
    .await;
    drop((stream, poll));
    until("nothing is open any more", async || {
        let counts = (
            open("connections").await,
            open("streams").await,
            open("long_polls").await,
        );
        counts == (0, 0, 0)
    })
    .await;
}

/// A connection on which a request has been sent, and which stays open.
async fn open_request(agent: &Agent, path: &str) -> tokio::net::TcpStream {
    use tokio::io::AsyncWriteExt;
    let mut stream = tokio::net::TcpStream::connect(agent.address).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        agent.address, agent.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn measurements_are_nowhere_but_on_their_own_listener() {
    let directory = tempfile::TempDir::new().unwrap();
    let (hub, metrics) = measured_hub(directory.path());
    let alice = hub.agent("alice").await;
    alice.get("/metrics").await.problem(ErrorCode::NotFound);
    let own = metrics.to_string();
    for path in [paths::ROOMS, paths::HEALTH, "/"] {
        get(metrics, path, &own).await.problem(ErrorCode::NotFound);
    }
    get(metrics, "/metrics", "evil.example")
        .await
        .problem(ErrorCode::MisdirectedRequest);
    let from_page = Request::get("/metrics")
        .header("host", &own)
        .header("origin", "http://evil.example");
    request(metrics, from_page.body("".into()).unwrap())
        .await
        .problem(ErrorCode::OriginRefused);

    let unmeasured = RunningProgram::start(&directory.path().join("other"));
    assert_eq!(unmeasured.said, [""; 0]);
}

#[tokio::test]
async fn every_measurement_is_documented() {
    let directory = tempfile::TempDir::new().unwrap();
    let (hub, metrics) = measured_hub(directory.path());
    hub.agent("alice").await;
    let answer = get(metrics, "/metrics", &metrics.to_string()).await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    // # TYPE name type
    let told: BTreeSet<_> = text
        .lines()
        .filter_map(|line| {
            let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            Some((format!("{name}{suffix}"), kind.to_owned()))
        })
        .collect();
    // | `name` | type | .. |
    let section = DOCUMENT
        .split_once("## Metrics")
        .unwrap()
        .1
        .split("\n## ")
        .next()
        .unwrap();
    let documented: BTreeSet<_> = section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let name = cells[1].trim_matches('`').split('{').next().unwrap();
            (name.to_owned(), cells[2].to_owned())
        })
        .collect();
    assert_eq!(told, documented);
}
