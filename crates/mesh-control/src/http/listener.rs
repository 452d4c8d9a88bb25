//! Accepts TLS connections: handshakes run side by side, each within a deadline and all within a bound, so that a
//! client that says nothing keeps nobody else out.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rustls::{ServerConfig, crypto::ring};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use secrecy::ExposeSecret as _;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::settings::ApiSettings;

/// How long a client has to complete its handshake.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
/// How many handshakes run at a time; further connections wait in the kernel's backlog.
const HANDSHAKES: usize = 256;

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

/// TLS connections, handshaken.
pub struct TlsListener {
    address: SocketAddr,
    connections: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    accepting: tokio::task::JoinHandle<()>,
}

impl TlsListener {
    /// Listens as told.
    pub async fn bind(settings: &ApiSettings) -> Result<Self, ListenError> {
        let acceptor = TlsAcceptor::from(Arc::new(server_config(settings)?));
        let failed = |source| ListenError::Bind { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (sender, connections) = mpsc::channel(HANDSHAKES);
        let accepting = tokio::spawn(accept(listener, acceptor, sender));
        Ok(Self { address, connections, accepting })
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.connections.recv().await {
            Some(connection) => connection,
            // The accepting task ends only with this listener.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        Ok(self.address)
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    connections: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (acceptor, connections) = (acceptor.clone(), connections.clone());
                tokio::spawn(async move {
                    let _place = place;
                    // Small answers, and events that should not wait for more.
                    let _ = stream.set_nodelay(true);
                    match timeout(HANDSHAKE_DEADLINE, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => drop(connections.send((stream, peer)).await),
                        Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
                        Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
                    }
                });
            }
            Err(error) => {
                // Out of descriptors, or a connection that ended in the backlog: both pass.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
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
