//! Accepts connections, serves HTTP/1.1 on each, inside TLS where there is a certificate, and stops in order: no new
//! connections, then the requests in flight, then the store.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::auth::Peer;
use crate::connection::Connection;
use crate::forwarded::TrustedProxies;
use crate::metrics::Counted;
use crate::state::{Phase, SharedState};
use crate::tls::TlsIdentity;

/// Fields of one request's head.
const MAX_HEADERS: usize = 64;
/// Bytes of one request's head, and of one read of a body.
const MAX_BUFFER_BYTES: usize = 256 << 10; // 256 KiB
/// Rest after the kernel refused a connection, for instance because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What answers requests.
pub(crate) trait Answers: Send + Sync {
    fn answer(&self, request: Request<Body>) -> BoxFuture<'static, Response>;
}

impl Answers for Router {
    fn answer(&self, request: Request<Body>) -> BoxFuture<'static, Response> {
        Box::pin(routed(self.clone(), request))
    }
}

/// What a router answers.
pub(crate) async fn routed(router: Router, request: Request<Body>) -> Response {
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// A way into the hub.
pub(crate) struct Door {
    /// What is behind it.
    pub(crate) answers: Box<dyn Answers>,
    /// The certificate it shows.
    pub(crate) tls: Option<TlsIdentity>,
    /// Who of those that come through it are proxies.
    pub(crate) proxies: TrustedProxies,
    /// Where its open connections are counted.
    pub(crate) connections: Gauge,
}

/// Serves until `shutdown` is ready or the hub fails. Returns what it failed with.
pub(crate) async fn serve(
    state: SharedState,
    door: Door,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Option<String> {
    let door = Arc::new(door);
    let permits = Arc::new(Semaphore::new(state.options.limits.max_connections));
    let mut connections = JoinSet::new();
    let failing = state.stopping();
    tokio::pin!(shutdown, failing);
    loop {
        tokio::select! {
            () = &mut shutdown => {
                state.phase.send_if_modified(|phase| {
                    let was_serving = *phase == Phase::Serving;
                    if was_serving {
                        *phase = Phase::Draining;
                    }
                    was_serving
                });
                break;
            }
            () = &mut failing => break,
            (stream, permit) = accept(&listener, &permits) => {
                connections.spawn(converse(SharedState::clone(&state), Arc::clone(&door), stream, permit));
                while connections.try_join_next().is_some() {}
            }
        }
    }
    drop(listener);

    let drain = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(state.options.limits.drain_timeout, drain)
        .await
        .is_err()
    {
        tracing::warn!("requests in flight were cut off");
        connections.shutdown().await;
    }
    match &*state.phase.borrow() {
        Phase::Failed(why) => Some(why.clone()),
        Phase::Serving | Phase::Draining => None,
    }
}

/// The next connection, once there may be one more.
async fn accept(listener: &TcpListener, permits: &Arc<Semaphore>) -> (TcpStream, OwnedSemaphorePermit) {
    let permit = Arc::clone(permits)
        .acquire_owned()
        .await
        .expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            Err(error) => {
                tracing::warn!(%error, "no connection accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection to its end, or until the hub stops and its request in flight is answered.
async fn converse(state: SharedState, door: Arc<Door>, stream: TcpStream, _permit: OwnedSemaphorePermit) {
    let _counted = Counted::one_more(&door.connections);
    let Ok(peer) = stream.peer_addr() else { return };
    // Answers are written whole; waiting for more to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    match &door.tls {
        None => serve_http(&state, &door, peer.ip(), stream).await,
        // In a place of its own: a connection without TLS is no larger for it.
        Some(tls) => Box::pin(serve_tls(&state, &door, tls, peer.ip(), stream)).await,
    }
}

async fn serve_tls(state: &SharedState, door: &Door, tls: &TlsIdentity, peer: IpAddr, stream: TcpStream) {
    let handshake = TlsAcceptor::from(tls.config()).accept(stream);
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(state.options.limits.header_timeout, handshake) => shaken,
        () = state.stopping() => return,
    };
    match shaken {
        Ok(Ok(stream)) => serve_http(state, door, peer, stream).await,
        Ok(Err(error)) => tracing::debug!(%error, client = %peer, "no TLS handshake"),
        Err(_) => tracing::debug!(client = %peer, "a TLS handshake took too long"),
    }
}

/// Serves the requests of one stream, which come from this address.
pub(crate) async fn serve_http<S>(state: &SharedState, door: &Door, peer: IpAddr, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let limits = &state.options.limits;
    let service = service_fn(|request: Request<Incoming>| {
        let client = door.proxies.client(peer, request.headers());
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(client));
        door.answers.answer(request).map(Ok::<_, Infallible>)
    });
    let connection = http1::Builder::new()
        // Without a timer hyper's header timeout is silently off.
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_BUFFER_BYTES)
        .serve_connection(TokioIo::new(Connection::new(stream, limits.stall_timeout)), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = state.stopping() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::Hub;
    use crate::options::HubOptions;

    /// Ten thousand of them wait at once.
    #[tokio::test]
    async fn a_connection_without_tls_holds_nothing_for_it() {
        let directory = tempfile::TempDir::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let hub = Hub::open(HubOptions::new(directory.path())).unwrap();
        let state = hub.into_state(address).await.unwrap();
        let door = Door {
            answers: Box::new(Router::new()),
            tls: None,
            proxies: TrustedProxies::default(),
            connections: Gauge::default(),
        };
        let permits = Arc::new(Semaphore::new(1));
        let (client, (stream, permit)) = tokio::join!(TcpStream::connect(address), accept(&listener, &permits));
        let serving = converse(state, Arc::new(door), stream, permit);
        assert!(size_of_val(&serving) < 1500, "{} bytes", size_of_val(&serving));
        drop((client, serving));
    }
}
