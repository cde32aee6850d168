//! Claims over HTTP where time, the disk and the network do as they like: what is said too late, and what wakes who waits.

use std::time::Duration;

use parler_protocol::{ErrorCode, TaskStatus, limits, paths};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::services::{claim, dispatch, fence, id, jobs, receipt, serve, service, unseen};
use crate::support::{Push, TestHub, bytes};

/// The lease is judged when the message is stored, however long its bytes take to come.
#[tokio::test]
async fn a_word_whose_bytes_come_too_late_is_too_late() {
    let hub = TestHub::start().await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    let dispatched = dispatch(&alice).await;
    let job = claim(&worker).await;
    let blob = bytes(limits::INLINE_BLOB_BYTES as usize + 40_000, 1);
    let done = parler_protocol::TaskPart {
        status: TaskStatus::Done,
        task: Some(id(&job).to_string()),
        note: None,
        result: None,
        tokens: None,
        elapsed_ms: None,
    };
    let message = Push::new()
        .bundle(&blob)
        .part(done)
        .sign(&worker, &unseen(&worker))
        .body;
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\nContent-Type: {}\r\n\
         {}: {}\r\n{}: {}\r\nConnection: close\r\n\r\n",
        paths::messages(&service().room()),
        worker.address,
        worker.token,
        message.len() + blob.len(),
        paths::MESSAGE_WITH_BLOB_TYPE,
        paths::MESSAGE_LENGTH_HEADER,
        message.len(),
        paths::FENCE_HEADER,
        fence(&job),
    );
    let (first, last) = blob.split_at(blob.len() / 2);
    let mut stream = TcpStream::connect(worker.address).await.unwrap();
    stream
        .write_all(&[head.as_bytes(), &message, first].concat())
        .await
        .unwrap();
    // The message is read and judged once its blob has a file.
    let files = hub.directory.path().join("hub/blobs/tmp");
    while std::fs::read_dir(&files).unwrap().next().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    hub.pass(limits::MIN_LEASE);
    stream.write_all(last).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 409 "), "{answer}");
    assert!(answer.contains(ErrorCode::StaleFence.as_str()), "{answer}");
    let page = alice.get(&paths::messages(&service().room())).await.expect(200);
    assert_eq!(page.seqs(), [dispatched.seq.get()], "nothing is left of it");
    assert_eq!(jobs(&alice).await[0].attempts, 1);
    let again = claim(&worker).await;
    let late = receipt(&worker, id(&job), TaskStatus::Done);
    let said = crate::services::post(&worker, &late, Some(fence(&again))).await;
    // And the time of the message is the one at which it was stored.
    said.expect(201).head();
}
