//! What a client may take of the server: so many connections, and so much time to ask something.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, routing::get};
use http_body_util::BodyExt as _;
use hyper::{Request, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mesh_control::{
    http::{Bounds, TlsListener},
    settings::ApiSettings,
};
use mesh_testkit::{Authority, LogWatch, wait_for};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

const NAME: &str = "api.mesh.internal";
const DEADLINE: Duration = Duration::from_secs(20);
/// Short beside the deadline, long beside a handshake on a busy machine.
const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_mins(10);
/// Nothing is short: each test shortens the one it is about.
const BOUNDS: Bounds = Bounds { connections: 100, handshake: LONG, head: LONG, idle: LONG };

struct Served {
    address: SocketAddr,
    authority: Authority,
    stop: CancellationToken,
}

async fn serve(bounds: Bounds) -> Served {
    let authority = Authority::new();
    let certificate = authority.issue(&[NAME]);
    let settings = ApiSettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        certificate_pem: certificate.chain_pem,
        key_pem: certificate.key_pem.into(),
    };
    let listener = TlsListener::bind(&settings).await.unwrap().within(bounds);
    let (address, stop) = (listener.address(), CancellationToken::new());
    // An answer that begins and does not end, as that of a watched list.
    let endless = || async {
        let begun = futures_util::stream::iter([Ok::<_, std::io::Error>("begun")]);
        Body::from_stream(futures_util::StreamExt::chain(begun, futures_util::stream::pending()))
    };
    let router = Router::new().route("/", get(|| async { "hello" })).route("/endless", get(endless));
    tokio::spawn(listener.serve(router, stop.clone()));
    Served { address, authority, stop }
}

impl Served {
    async fn plain(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn connect(&self, protocol: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).unwrap()).unwrap();
        let mut config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(ServerName::try_from(NAME).unwrap(), self.plain().await).await
    }

    async fn ask(&self, path: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let mut stream = self.connect("http/1.1").await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {NAME}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = [0; 1024];
        match stream.read(&mut answer).await? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(stream),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Waits until the server has closed it.
async fn closed(what: &str, stream: &mut (impl tokio::io::AsyncRead + Unpin)) {
    let mut rest = Vec::new();
    let ended = timeout(DEADLINE, stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "{what} is kept");
}

#[tokio::test]
async fn beyond_the_bound_a_connection_is_closed_and_counted_and_a_free_place_is_taken() {
    let served = serve(Bounds { connections: 2, ..BOUNDS }).await;
    let log = LogWatch::start();
    // One that has not even shaken hands, and one that is answered, take the two places.
    let first = served.plain().await;
    let second = wait_for("an answer", DEADLINE, async || served.ask("/").await).await;
    let mut third = served.plain().await;
    closed("a third connection", &mut third).await;
    wait_for("it to be said", DEADLINE, async || log.has("refused=1 bound=2")).await;
    drop((first, second));
    wait_for("an answer to the next one", DEADLINE, async || served.ask("/").await).await;
}

#[tokio::test]
async fn who_says_nothing_or_says_it_slowly_is_let_go() {
    let served = serve(Bounds { handshake: SHORT, ..BOUNDS }).await;
    closed("a connection without a handshake", &mut served.plain().await).await;

    let served = serve(Bounds { head: SHORT, ..BOUNDS }).await;
    for protocol in ["http/1.1", "h2"] {
        closed("a connection without a request", &mut served.connect(protocol).await.unwrap()).await;
    }
    let mut slow = served.connect("http/1.1").await.unwrap();
    let begun = Instant::now();
    slow.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let mut pace = tokio::time::interval(SHORT / 5);
    let drip = async {
        loop {
            pace.tick().await;
            if slow.write_all(b"x: y\r\n").await.is_err() {
                return;
            }
        }
    };
    assert!(timeout(DEADLINE, drip).await.is_ok(), "a head without end is read");
    assert!(begun.elapsed() < DEADLINE / 2, "{:?}", begun.elapsed());
    closed("HTTP/1 between requests", &mut served.ask("/").await.unwrap()).await;
}

#[tokio::test]
async fn a_connection_that_asks_nothing_more_is_let_go_and_an_answer_under_way_is_not() {
    let served = serve(Bounds { head: SHORT * 3, idle: SHORT, ..BOUNDS }).await;
    let mut watched = served.ask("/endless").await.unwrap();
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(served.connect("h2").await.unwrap()))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::get(format!("https://{NAME}/")).body(Body::empty()).unwrap();
    let answer = sender.send_request(request).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(answer.to_bytes(), "hello");
    let ended = timeout(DEADLINE, connection).await;
    assert!(ended.is_ok(), "an idle HTTP/2 connection is kept");
    assert!(sender.is_closed());
    // Longer than either bound.
    let more = timeout(SHORT * 5, watched.read(&mut [0; 64])).await;
    assert!(more.is_err(), "a watched list was cut: {more:?}");
}
