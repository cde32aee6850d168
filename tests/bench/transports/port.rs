//! Servers that cannot be told to take any port: one that was free a moment ago, and another where somebody was faster.

use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::thread::sleep;
use std::time::Duration;

/// Servers that found their port taken.
const TRIES: usize = 5;
/// Between two looks whether it listens.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Starts a server and waits until it listens. Returns its port.
///
/// # Errors
/// Where it ends instead, each time.
pub(crate) fn serve(mut start: impl FnMut(u16) -> Child) -> Result<(Child, u16), String> {
    let mut ended = String::new();
    for _ in 0..TRIES {
        let free = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = free.local_addr().map_err(|error| error.to_string())?.port();
        drop(free);
        let mut child = start(port);
        loop {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                ended = format!("the server ends: {status}");
                break;
            }
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok((child, port));
            }
            sleep(BETWEEN_LOOKS);
        }
    }
    Err(ended)
}
