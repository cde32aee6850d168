//! One client's connection below HTTP. Gives up a peer that takes no more bytes, and closes so that the last answer
//! arrives.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long a closed connection waits for its peer to close too.
const LINGER: Duration = Duration::from_secs(2);
/// What the peer may send meanwhile.
const LINGER_BYTES: u64 = 64 << 20; // 64 MiB

/// A stream of bytes, plain or inside TLS, with limits to its patience.
///
/// An answer that comes before the request's body was read (too large, no such room) leaves bytes of that body
/// unread. Closing then makes the kernel reset the connection, and the reset can overtake the answer; so the writing half
/// is closed first, and what still comes is read and thrown away for a moment.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    stream: S,
    /// Longest the peer may take no byte.
    stall_timeout: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
    lingering: Option<Lingering>,
}

#[derive(Debug)]
struct Lingering {
    until: Pin<Box<Sleep>>,
    thrown_away: u64,
}

impl<S> Connection<S> {
    pub(crate) fn new(stream: S, stall_timeout: Duration) -> Self {
        Self {
            stream,
            stall_timeout,
            stalled: None,
            lingering: None,
        }
    }

    /// Judges a write that was just tried.
    fn judge<T>(&mut self, cx: &mut Context<'_>, tried: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if tried.is_ready() {
            self.stalled = None;
            return tried;
        }
        let timeout = self.stall_timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer reads no more")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, tried)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.judge(cx, tried)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Inside TLS this is where bytes wait that a write has taken.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(cx, tried)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingering.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            this.lingering = Some(Lingering {
                until: Box::pin(sleep(LINGER)),
                thrown_away: 0,
            });
        }
        let Some(lingering) = &mut this.lingering else {
            return Poll::Ready(Ok(()));
        };
        let mut space = [0; 16 << 10];
        loop {
            if lingering.until.as_mut().poll(cx).is_ready() || lingering.until.deadline() <= Instant::now() {
                return Poll::Ready(Ok(()));
            }
            let mut buf = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buf))?;
            lingering.thrown_away += buf.filled().len() as u64;
            if buf.filled().is_empty() || lingering.thrown_away > LINGER_BYTES {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
