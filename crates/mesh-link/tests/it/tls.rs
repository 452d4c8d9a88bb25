//! Which servers are trusted, and in which words the others are refused.

use std::sync::Arc;
use std::time::Duration;

use mesh_link::{
    Address, ClientTls, Connection, DialError, DialFailure, Endpoint, Frames, OpenError, TlsRefusal,
    authority_pin, learn_authority,
};
use mesh_testkit::{Authority, ServerCertificate};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;

const NAME: &str = "broker.mesh.internal";
const DEADLINE: Duration = Duration::from_secs(10);

/// A server that shakes hands with everybody and then says nothing.
async fn serve(certificate: &ServerCertificate) -> Address {
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(certificate.chain_pem.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.extend(acceptor.accept(stream).await.ok());
        }
    });
    Address::new("127.0.0.1", port)
}

async fn closed_port() -> Address {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    Address::new("127.0.0.1", listener.local_addr().unwrap().port())
}

async fn learn(address: &Address, mesh: &Authority) -> Result<String, DialFailure> {
    let pin = authority_pin(&mesh.pem()).unwrap();
    learn_authority(std::slice::from_ref(address), NAME, &pin, DEADLINE)
        .await
        .map(|learned| learned.pem)
        .map_err(|error| error.foremost().unwrap().clone())
}

/// What an AMQP connection that trusts this authority says of a server that never speaks AMQP.
async fn open(address: &Address, mesh: &Authority) -> DialFailure {
    let endpoint = Endpoint {
        addresses: vec![address.clone()],
        tls: ClientTls::trusting(&mesh.pem(), NAME).unwrap(),
        vhost: "link".to_owned(),
        account: "n-node-1".to_owned(),
        password: "secret".into(),
        name: "a test".to_owned(),
        frames: Frames::Small,
    };
    match Connection::open(&endpoint, Duration::from_secs(1)).await {
        Err(OpenError::Dial(error)) => error.foremost().unwrap().clone(),
        other => panic!("the handshake should have failed: {other:?}"),
    }
}

#[tokio::test]
async fn the_pinned_authority_is_learned_and_is_the_meshs() {
    let mesh = Authority::new();
    let address = serve(&mesh.issue(&[NAME])).await;
    let learned = learn(&address, &mesh).await.unwrap();
    assert_eq!(authority_pin(&learned), authority_pin(&mesh.pem()));
    // What was learned serves from then on.
    assert!(ClientTls::trusting(&learned, NAME).is_ok());
}

#[tokio::test]
async fn another_authority_is_refused_by_pin_and_by_certificate() {
    let (mesh, other) = (Authority::new(), Authority::new());
    let address = serve(&other.issue(&[NAME])).await;
    assert_eq!(learn(&address, &mesh).await, Err(DialFailure::Tls(TlsRefusal::PinMismatch)));
    assert_eq!(open(&address, &mesh).await, DialFailure::Tls(TlsRefusal::UnknownIssuer));
}

#[tokio::test]
async fn a_server_that_shows_the_pinned_authority_but_was_not_issued_by_it_is_refused() {
    let (mesh, other) = (Authority::new(), Authority::new());
    let mut certificate = other.issue(&[NAME]);
    certificate.chain_pem.push_str(&mesh.pem());
    let address = serve(&certificate).await;
    assert_eq!(learn(&address, &mesh).await, Err(DialFailure::Tls(TlsRefusal::UnknownIssuer)));
}

#[tokio::test]
async fn a_self_signed_server_is_refused() {
    let mesh = Authority::new();
    let address = serve(&ServerCertificate::self_signed(&[NAME])).await;
    assert_eq!(learn(&address, &mesh).await, Err(DialFailure::Tls(TlsRefusal::PinMismatch)));
    assert_eq!(open(&address, &mesh).await, DialFailure::Tls(TlsRefusal::UnknownIssuer));
}

#[tokio::test]
async fn a_server_of_another_name_is_refused() {
    let mesh = Authority::new();
    let address = serve(&mesh.issue(&["api.mesh.internal"])).await;
    let wrong = DialFailure::Tls(TlsRefusal::WrongName(NAME.to_owned()));
    assert_eq!(learn(&address, &mesh).await, Err(wrong.clone()));
    assert_eq!(open(&address, &mesh).await, wrong);
}

#[tokio::test]
async fn a_certificate_outside_its_time_says_to_look_at_the_clock() {
    let mesh = Authority::new();
    let expired = serve(&mesh.issue_expired(&[NAME])).await;
    assert_eq!(learn(&expired, &mesh).await, Err(DialFailure::Tls(TlsRefusal::Expired)));
    let future = serve(&mesh.issue_not_yet_valid(&[NAME])).await;
    assert_eq!(learn(&future, &mesh).await, Err(DialFailure::Tls(TlsRefusal::NotYetValid)));
    assert!(TlsRefusal::Expired.to_string().contains("clock"));
}

#[tokio::test]
async fn unreachable_unresolvable_and_silent_are_told_apart() {
    let mesh = Authority::new();
    assert!(matches!(learn(&closed_port().await, &mesh).await, Err(DialFailure::Unreachable(_))));
    let nowhere = Address::new("no-such-host.invalid", 5671);
    assert!(matches!(learn(&nowhere, &mesh).await, Err(DialFailure::Resolve(_))));
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let silent = Address::new("127.0.0.1", silent.local_addr().unwrap().port());
    let pin = authority_pin(&mesh.pem()).unwrap();
    let error: DialError =
        learn_authority(&[silent], NAME, &pin, Duration::from_millis(200)).await.unwrap_err();
    // Dropped with the listener or never answered, as the machine likes: never a refusal.
    assert!(
        matches!(error.foremost(), Some(DialFailure::Timeout(_) | DialFailure::Unreachable(_))),
        "{error}"
    );
}

#[tokio::test]
async fn the_next_address_is_tried_and_every_failure_is_named() {
    let mesh = Authority::new();
    let pin = authority_pin(&mesh.pem()).unwrap();
    let (closed, good) = (closed_port().await, serve(&mesh.issue(&[NAME])).await);
    let learned = learn_authority(&[closed.clone(), good.clone()], NAME, &pin, DEADLINE).await.unwrap();
    assert_eq!(learned.address, good);

    let stranger = serve(&Authority::new().issue(&[NAME])).await;
    let error = learn_authority(&[closed.clone(), stranger.clone()], NAME, &pin, DEADLINE).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&closed.to_string()) && text.contains(&stranger.to_string()), "{text}");
    assert_eq!(error.foremost(), Some(&DialFailure::Tls(TlsRefusal::PinMismatch)));
}

#[tokio::test]
async fn a_server_that_never_speaks_does_not_outlast_the_deadline() {
    let mesh = Authority::new();
    let endpoint = Endpoint {
        addresses: vec![serve(&mesh.issue(&[NAME])).await],
        tls: ClientTls::trusting(&mesh.pem(), NAME).unwrap(),
        vhost: "link".to_owned(),
        account: "n-node-1".to_owned(),
        password: "secret".into(),
        name: "a test".to_owned(),
        frames: Frames::Small,
    };
    let began = tokio::time::Instant::now();
    let error = Connection::open(&endpoint, Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(error, OpenError::Broken { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
