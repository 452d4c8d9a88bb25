//! Serves the interface over TLS: connections side by side, every one of them within bounds, so that a client that says
//! nothing, or says it slowly, keeps nobody else out.
//!
//! A request under way, a watched list included, is never cut for being slow; whoever asks nothing is let go. Beyond the
//! bound a connection is closed at once and counted. Never decides what an answer is.
//! Called by: `serve`.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicU64, atomic::Ordering},
    time::Duration,
};

use axum::{Router, body::Body, http::Request};
use http_body_util::BodyExt as _;
use hyper::{
    body::Incoming,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use rustls::{ServerConfig, crypto::ring};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use secrecy::ExposeSecret as _;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::{Instant, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::settings::ApiSettings;

/// How long a connection that was told to end may take over it once nothing is under way on it.
const FAREWELL: Duration = Duration::from_secs(5);
/// How often it is said that connections were refused.
const SAID_EVERY: Duration = Duration::from_mins(1);

/// What one client may take of the server.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at a time, those that still shake hands included.
    pub connections: usize,
    /// How long a client has to complete its handshake.
    pub handshake: Duration,
    /// How long it has for the head of a request, from the handshake or the first byte on.
    pub head: Duration,
    /// How long it may keep a connection on which it asks nothing. In HTTP/1 that is the wait for a head.
    pub idle: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 1024,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            idle: Duration::from_mins(1),
        }
    }
}

/// Why the interface cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The certificate or its key cannot be used.
    #[error("use the interface's certificate: {0}")]
    Certificate(String),
    /// The address cannot be listened on.
    #[error("listen on {address}")]
    Bind {
        /// Which address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
}

/// Listens; connections wait in the kernel's backlog until it serves.
pub struct TlsListener {
    address: SocketAddr,
    listener: TcpListener,
    acceptor: TlsAcceptor,
    bounds: Bounds,
}

impl TlsListener {
    /// Listens as told.
    pub async fn bind(settings: &ApiSettings) -> Result<Self, ListenError> {
        let acceptor = TlsAcceptor::from(Arc::new(server_config(settings)?));
        let failed = |source| ListenError::Bind { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { address, listener, acceptor, bounds: Bounds::default() })
    }

    /// The same within other bounds.
    #[must_use]
    pub fn within(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until told to stop, and then until what is under way has ended.
    pub async fn serve(self, router: Router, stop: CancellationToken) {
        let (places, open) = (Arc::new(Semaphore::new(self.bounds.connections)), TaskTracker::new());
        let refused = Refused::default();
        while let Some(accepted) = stop.run_until_cancelled(self.listener.accept()).await {
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, or a connection that ended in the backlog: both pass.
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                drop(stream);
                refused.count(self.bounds.connections);
                continue;
            };
            let (acceptor, router, stop) = (self.acceptor.clone(), router.clone(), stop.clone());
            let bounds = self.bounds;
            open.spawn(async move {
                converse(stream, peer, acceptor, router, bounds, stop).await;
                drop(place);
            });
        }
        drop(self.listener);
        open.close();
        open.wait().await;
    }
}

/// Connections beyond the bound: counted, and said once a minute.
#[derive(Default)]
struct Refused {
    count: AtomicU64,
    said: std::sync::Mutex<Option<Instant>>,
}

impl Refused {
    fn count(&self, bound: usize) {
        let refused = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let mut said = self.said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if said.is_none_or(|said| said.elapsed() >= SAID_EVERY) {
            *said = Some(Instant::now());
            tracing::warn!(refused, bound, "as many connections as may be are open; further ones are closed");
        }
    }
}

/// One connection, from its handshake to its end.
async fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: TlsAcceptor,
    router: Router,
    bounds: Bounds,
    stop: CancellationToken,
) {
    // Small answers, and events that should not wait for more.
    let _ = stream.set_nodelay(true);
    let shaken = stop.run_until_cancelled(timeout(bounds.handshake, acceptor.accept(stream))).await;
    let stream = match shaken {
        Some(Ok(Ok(stream))) => stream,
        Some(Ok(Err(error))) => return tracing::debug!(%peer, %error, "a TLS handshake failed"),
        Some(Err(_)) => return tracing::debug!(%peer, "a TLS handshake took too long"),
        None => return,
    };
    let requests = Requests::default();
    let (interface, asked) = (TowerToHyperService::new(router), requests.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (answering, underway) = (interface.call(request), asked.begin());
        async move {
            let response = answering.await?;
            // Under way until the last byte of the answer is, which of a watched list is not soon.
            Ok::<_, std::convert::Infallible>(response.map(|body| {
                Body::new(body.map_frame(move |frame| {
                    let _ = &underway;
                    frame
                }))
            }))
        }
    });
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(bounds.head);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(20)))
        .keep_alive_timeout(Duration::from_secs(20));
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%peer, error, "a connection broke off");
            }
            return;
        }
        () = requests.idle(bounds.head, bounds.idle) => tracing::debug!(%peer, "a connection asked nothing"),
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        _ = connection => {}
        () = requests.idle(FAREWELL, FAREWELL) => {}
    }
}

/// The requests of one connection: how many are under way, and whether there ever was one.
#[derive(Clone, Default)]
struct Requests(Arc<watch::Sender<(usize, bool)>>);

/// A request under way, until it is dropped.
struct Underway(Requests);

impl Requests {
    fn begin(&self) -> Underway {
        self.0.send_modify(|(count, any)| {
            *count += 1;
            *any = true;
        });
        Underway(self.clone())
    }

    /// Waits until nothing has been under way for so long: `first` where nothing ever was.
    async fn idle(&self, first: Duration, later: Duration) {
        let mut state = self.0.subscribe();
        loop {
            let (underway, any) = *state.borrow_and_update();
            if underway > 0 {
                let _ = state.changed().await;
            } else if timeout(if any { later } else { first }, state.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.0.send_modify(|(count, _)| *count -= 1);
    }
}

fn server_config(settings: &ApiSettings) -> Result<ServerConfig, ListenError> {
    let invalid = |error: &dyn std::fmt::Display| ListenError::Certificate(error.to_string());
    let chain = CertificateDer::pem_slice_iter(settings.certificate_pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| invalid(&error))?;
    let key = PrivateKeyDer::from_pem_slice(settings.key_pem.expose_secret().as_bytes())
        .map_err(|error| invalid(&error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(&error))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| invalid(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
