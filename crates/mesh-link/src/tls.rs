//! TLS that trusts one certificate authority and nothing else: by its certificate, or at first by its pin.
//!
//! Never loads the system's roots, and never accepts a certificate it did not verify against that one authority. The
//! refusals are told apart, because a person who joins a machine acts on each differently.
//! Called by: [`crate::Connection`], [`crate::Management`], and by joining, which learns the authority by its pin.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mesh_ids::Fingerprint;
use mesh_seal::fingerprint_of;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::address::Address;
use crate::dial::{DialError, dial};

/// Why a server's certificate was refused, or why the handshake came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsRefusal {
    /// No authority in what the server presented has the pinned key.
    #[error(
        "the server does not present the pinned authority: another mesh, another server, or somebody in between"
    )]
    PinMismatch,
    /// Signed by an authority other than the mesh's, or by itself.
    #[error("the server's certificate was not issued by the mesh's authority")]
    UnknownIssuer,
    /// Issued by the mesh's authority, but for other names.
    #[error("the server's certificate is not for the name {0:?}")]
    WrongName(String),
    /// By this machine's clock the certificate is past its end.
    #[error(
        "the server's certificate has expired by this machine's clock: check the clock, then the certificate"
    )]
    Expired,
    /// By this machine's clock the certificate is of the future.
    #[error("the server's certificate is not valid yet by this machine's clock: check the clock")]
    NotYetValid,
    /// Whatever answered does not speak TLS as it should.
    #[error("the TLS handshake failed: {0}")]
    Handshake(String),
}

/// What cannot be made into a TLS configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTls {
    /// Not PEM with exactly one certificate, or one that is no trust anchor.
    #[error("read the authority's certificate: {0}")]
    Authority(String),
    /// Not a name a certificate can carry.
    #[error("{0:?} is not a server name")]
    ServerName(String),
    /// The cryptographic library refused its own defaults.
    #[error("set up TLS: {0}")]
    Library(String),
}

/// TLS towards one server name, trusting one authority.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    server_name: ServerName<'static>,
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

impl ClientTls {
    /// Trusts the one certificate in this PEM, for a server of this name.
    pub fn trusting(authority_pem: &str, server_name: &str) -> Result<Self, InvalidTls> {
        let verifier = verifier_for(&read_authority(authority_pem)?)?;
        Self::with_verifier(verifier, server_name)
    }

    /// The configuration, for another client of the same server (HTTPS).
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// The name the server's certificate must carry.
    pub fn server_name(&self) -> &ServerName<'static> {
        &self.server_name
    }

    fn with_verifier(verifier: Arc<dyn ServerCertVerifier>, server_name: &str) -> Result<Self, InvalidTls> {
        let server_name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| InvalidTls::ServerName(server_name.to_owned()))?;
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|e| InvalidTls::Library(e.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        // A resumed session is not verified again, and a reconnect is rare: every handshake is a whole one.
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), server_name })
    }

    /// Shakes hands over an open stream.
    pub(crate) async fn shake_hands(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, TlsRefusal> {
        let connector = tokio_rustls::TlsConnector::from(self.config());
        connector.connect(self.server_name.clone(), stream).await.map_err(|e| self.refusal(&e))
    }

    fn refusal(&self, error: &std::io::Error) -> TlsRefusal {
        let Some(tls) = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) else {
            return TlsRefusal::Handshake(error.to_string());
        };
        let rustls::Error::InvalidCertificate(why) = tls else {
            return TlsRefusal::Handshake(tls.to_string());
        };
        match why {
            CertificateError::Other(OtherError(other)) if other.is::<PinMismatch>() => {
                TlsRefusal::PinMismatch
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsRefusal::WrongName(self.server_name.to_str().into_owned())
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsRefusal::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                TlsRefusal::NotYetValid
            }
            // `Other` is what webpki says of a certificate that names itself as its issuer.
            CertificateError::UnknownIssuer | CertificateError::BadSignature | CertificateError::Other(_) => {
                TlsRefusal::UnknownIssuer
            }
            other => TlsRefusal::Handshake(other.to_string()),
        }
    }
}

/// The pin of an authority: the SHA-256 of its SubjectPublicKeyInfo, as in a join token.
pub fn authority_pin(authority_pem: &str) -> Result<Fingerprint, InvalidTls> {
    pin_of(&read_authority(authority_pem)?).map_err(|e| InvalidTls::Authority(e.to_string()))
}

/// An authority learned by its pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedAuthority {
    /// Its certificate, to be trusted from now on.
    pub pem: String,
    /// The address at which it was learned.
    pub address: Address,
}

/// Shakes hands with the first of these addresses that answers, and takes the authority with this pin from what the
/// server presents, once the server's certificate verified against that authority alone. Nothing else is sent.
pub async fn learn_authority(
    addresses: &[Address],
    server_name: &str,
    pin: &Fingerprint,
    deadline: Duration,
) -> Result<LearnedAuthority, DialError> {
    let learned = Arc::new(OnceLock::new());
    let verifier =
        Arc::new(PinVerifier { pin: pin.clone(), provider: provider(), learned: Arc::clone(&learned) });
    let tls = ClientTls::with_verifier(verifier, server_name)
        .map_err(|e| DialError::nowhere(TlsRefusal::Handshake(e.to_string())))?;
    let (address, _stream) = dial(addresses, &tls, deadline).await?;
    let certificate = learned.get().ok_or_else(|| DialError::nowhere(TlsRefusal::PinMismatch))?;
    Ok(LearnedAuthority { pem: write_pem(certificate), address })
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn read_authority(pem: &str) -> Result<CertificateDer<'static>, InvalidTls> {
    let invalid = |why: String| InvalidTls::Authority(why);
    let mut certificates = CertificateDer::pem_slice_iter(pem.as_bytes());
    let first = certificates
        .next()
        .ok_or_else(|| invalid("there is no certificate in it".to_owned()))?
        .map_err(|e| invalid(e.to_string()))?;
    match certificates.next() {
        None => Ok(first),
        Some(_) => Err(invalid("there is more than one certificate in it".to_owned())),
    }
}

fn write_pem(certificate: &CertificateDer<'_>) -> String {
    let text = STANDARD.encode(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

fn verifier_for(authority: &CertificateDer<'_>) -> Result<Arc<WebPkiServerVerifier>, InvalidTls> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone().into_owned()).map_err(|e| InvalidTls::Authority(e.to_string()))?;
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|e| InvalidTls::Library(e.to_string()))
}

fn pin_of(certificate: &CertificateDer<'_>) -> Result<Fingerprint, rustls::Error> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    Ok(fingerprint_of(&parsed.subject_public_key_info()))
}

#[derive(Debug, thiserror::Error)]
#[error("no authority presented has the pinned key")]
struct PinMismatch;

/// Trusts the authority with one pin, wherever in the presented chain it stands.
#[derive(Debug)]
struct PinVerifier {
    pin: Fingerprint,
    provider: Arc<CryptoProvider>,
    learned: Arc<OnceLock<CertificateDer<'static>>>,
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let mismatch =
            || rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(PinMismatch))));
        let authority = intermediates
            .iter()
            .find(|certificate| pin_of(certificate).is_ok_and(|pin| pin == self.pin))
            .ok_or_else(mismatch)?;
        let verifier = verifier_for(authority).map_err(|_| mismatch())?;
        let accepted =
            verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        let _ = self.learned.set(authority.clone().into_owned());
        Ok(accepted)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
