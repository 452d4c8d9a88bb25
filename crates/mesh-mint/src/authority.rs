//! The mesh's certificate authority and the servers it signs for: ECDSA P-256, which every TLS library speaks.
//!
//! Only public facts of the authority are needed to sign (its name is the same in every mesh, and clients pin its key, so
//! the name proves nothing), which is why its certificate is never parsed here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};

use crate::{Authority, Minted};

/// The authority's name in every mesh.
const AUTHORITY: &str = "Novox Mesh CA";

/// How long certificates last. Nothing renews them before the mesh's own renewal does, and a mesh must outlive years in
/// which nobody looks at it.
const YEARS: i32 = 10;

/// Makes an authority: its key, and its certificate.
pub(crate) fn make(now: u64) -> Result<Minted, rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = authority(now).self_signed(&key)?;
    Ok(Minted {
        content: key.serialize_pem().into_bytes(),
        certificate: Some(certificate.pem().into_bytes()),
    })
}

/// Makes a server's key, and its certificate followed by the authority's, so that clients find the key they pin.
pub(crate) fn sign_server(
    by: Authority<'_>,
    names: &[String],
    addresses: &[IpAddr],
    now: u64,
) -> Result<Minted, rcgen::Error> {
    let issuer = Issuer::new(authority(now), KeyPair::from_pem(by.key)?);
    let mut server = valid(CertificateParams::new(names.to_vec())?, now);
    server.distinguished_name.push(DnType::CommonName, names.first().map_or("mesh", String::as_str));
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let mut reached: Vec<IpAddr> = addresses.iter().copied().chain(loopback).collect();
    reached.sort();
    reached.dedup();
    server.subject_alt_names.extend(reached.into_iter().map(SanType::IpAddress));
    server.use_authority_key_identifier_extension = true;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let chain = server.signed_by(&key, &issuer)?.pem() + by.certificate;
    Ok(Minted { content: key.serialize_pem().into_bytes(), certificate: Some(chain.into_bytes()) })
}

fn authority(now: u64) -> CertificateParams {
    let mut authority = valid(CertificateParams::default(), now);
    authority.distinguished_name.push(DnType::CommonName, AUTHORITY);
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority
}

/// Valid since 1970, since a machine whose clock died must find its way back, and for [`YEARS`] from now.
fn valid(mut params: CertificateParams, now: u64) -> CertificateParams {
    let year = 1970 + i32::try_from(now / 31_556_952).unwrap_or(i32::MAX - 9_999);
    params.not_before = date_time_ymd(1970, 1, 1);
    params.not_after = date_time_ymd(year.min(9_900) + YEARS, 1, 1);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use std::sync::Arc;

    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls_pki_types::pem::PemObject as _;
    use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().unwrap()
    }

    /// Judges as a real client would: by a root store that holds this authority only.
    fn judge(root: &[u8], chain: &[u8], name: &str, at: u64) -> Result<(), rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(certificates(root)[0].clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let chain = certificates(chain);
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(at));
        verifier.verify_server_cert(&chain[0], &chain[1..], &name, &[], at).map(|_| ())
    }

    #[test]
    fn a_client_that_trusts_the_authority_alone_accepts_its_servers_by_every_name_and_address() {
        let ca = make(NOW).unwrap();
        let root = ca.certificate.unwrap();
        let by = Authority { key: text(&ca.content), certificate: text(&root) };
        let names = ["broker.mesh.internal".to_owned(), "broker".to_owned()];
        let server = sign_server(by, &names, &["10.1.2.3".parse().unwrap()], NOW).unwrap();
        let chain = server.certificate.unwrap();
        assert_eq!(certificates(&chain).len(), 2, "the server sends the authority too");
        assert_eq!(certificates(&chain)[1], certificates(&root)[0]);
        for name in ["broker.mesh.internal", "broker", "10.1.2.3", "127.0.0.1", "::1"] {
            judge(&root, &chain, name, NOW).unwrap();
        }
        assert!(judge(&root, &chain, "10.1.2.4", NOW).is_err());
        assert!(judge(&root, &chain, "elsewhere", NOW).is_err());
        PrivateKeyDer::from_pem_slice(&server.content).unwrap();

        let other = make(NOW).unwrap().certificate.unwrap();
        assert!(
            judge(&other, &chain, "broker", NOW).is_err(),
            "another mesh's authority has the same name only"
        );
    }

    #[test]
    fn a_dead_clock_accepts_what_a_running_one_does_and_neither_accepts_for_ever() {
        let ca = make(NOW).unwrap();
        let root = ca.certificate.unwrap();
        let by = Authority { key: text(&ca.content), certificate: text(&root) };
        let chain = sign_server(by, &["a".to_owned()], &[], NOW).unwrap().certificate.unwrap();
        let year = 31_556_952;
        for at in [0, 86_400, NOW, NOW + 8 * year] {
            judge(&root, &chain, "a", at).unwrap();
        }
        assert!(judge(&root, &chain, "a", NOW + 11 * year).is_err());
    }
}
