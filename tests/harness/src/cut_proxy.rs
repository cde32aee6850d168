//! Stands between a client and a hub, and cuts answers off that the hub has given: what was asked is done, and the asker
//! does not know. One request a connection; nothing else is changed but the address in `Host`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use crate::{DEADLINE, HubProcess};

/// A way to a hub on which answers get lost.
#[derive(Debug)]
pub struct CutProxy {
    address: String,
    left: Arc<AtomicUsize>,
    cut: mpsc::Receiver<String>,
}

impl CutProxy {
    /// Opens a way to this hub. Nothing is cut yet.
    pub fn to(hub: &HubProcess) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of the loopback");
        let address = listener.local_addr().expect("just bound").to_string();
        let upstream = hub.url().trim_start_matches("http://").to_owned();
        let left = Arc::new(AtomicUsize::new(0));
        let (told, cut) = mpsc::channel();
        let to_cut = Arc::clone(&left);
        // Ends with the test's process: it waits for a connection then, and holds nothing.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (upstream, to_cut, told) = (upstream.clone(), Arc::clone(&to_cut), told.clone());
                thread::spawn(move || {
                    // A connection that breaks is the client's to notice.
                    let _ = pass(client, &upstream, &to_cut, &told);
                });
            }
        });
        Self { address, left, cut }
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on the answers to so many posted messages are cut off.
    pub fn cut(&self, answers: usize) {
        self.left.store(answers, Ordering::SeqCst);
    }

    /// Waits until an answer has been cut off, and returns its first line.
    #[track_caller]
    pub fn wait_for_cut(&self) -> String {
        self.cut.recv_timeout(DEADLINE).expect("no answer was cut off")
    }
}

fn pass(client: TcpStream, upstream: &str, to_cut: &AtomicUsize, told: &mpsc::Sender<String>) -> std::io::Result<()> {
    let mut from_client = BufReader::new(client.try_clone()?);
    let mut hub = TcpStream::connect(upstream)?;
    let mut first = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        from_client.read_line(&mut line)?;
        let lower = line.to_ascii_lowercase();
        if first.is_empty() {
            first.clone_from(&line);
        }
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
        if line.trim().is_empty() {
            break;
        }
        match lower.starts_with("host:") {
            true => write!(hub, "Host: {upstream}\r\nConnection: close\r\n")?,
            false => hub.write_all(line.as_bytes())?,
        }
    }
    hub.write_all(b"\r\n")?;
    std::io::copy(&mut from_client.take(length), &mut hub)?;
    let mut answer = Vec::new();
    hub.read_to_end(&mut answer)?;
    let is_message = first.starts_with("POST ") && first.contains("/messages ");
    let is_cut = is_message
        && to_cut
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
            .is_ok();
    if is_cut {
        client.shutdown(Shutdown::Both)?;
        let line = String::from_utf8_lossy(&answer);
        let _ = told.send(line.lines().next().unwrap_or_default().to_owned());
        return Ok(());
    }
    (&client).write_all(&answer)?;
    client.shutdown(Shutdown::Both)
}
