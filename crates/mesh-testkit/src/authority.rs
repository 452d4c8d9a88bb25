//! A certificate authority for one test, and the certificates it issues.
//!
//! Called by: tests that speak TLS, and [`crate::Broker`].

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

/// An authority that nobody else knows.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// What a server needs, as PEM.
#[derive(Clone, Debug)]
pub struct ServerCertificate {
    /// Its certificate, then the authority's.
    pub chain_pem: String,
    /// Its private key.
    pub key_pem: String,
}

impl Authority {
    /// A new one.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("make the authority's key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("make the authority") }
    }

    /// Its certificate.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for a server of these names, valid now.
    pub fn issue(&self, names: &[&str]) -> ServerCertificate {
        self.issue_with(names, |_| {})
    }

    /// A certificate that ended long ago.
    pub fn issue_expired(&self, names: &[&str]) -> ServerCertificate {
        self.issue_with(names, |params| {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        })
    }

    /// A certificate that begins in a far future.
    pub fn issue_not_yet_valid(&self, names: &[&str]) -> ServerCertificate {
        self.issue_with(names, |params| {
            params.not_before = rcgen::date_time_ymd(2999, 1, 1);
            params.not_after = rcgen::date_time_ymd(3000, 1, 1);
        })
    }

    fn issue_with(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> ServerCertificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names of a server");
        change(&mut params);
        let key = KeyPair::generate().expect("make a server's key");
        let certificate = params.signed_by(&key, &self.issuer).expect("issue a certificate");
        ServerCertificate {
            chain_pem: format!("{}{}", certificate.pem(), self.pem()),
            key_pem: key.serialize_pem(),
        }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl ServerCertificate {
    /// One that a server issued to itself.
    pub fn self_signed(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().expect("make a server's key");
        let params = CertificateParams::new(names).expect("names of a server");
        let certificate = params.self_signed(&key).expect("sign by itself");
        Self { chain_pem: certificate.pem(), key_pem: key.serialize_pem() }
    }
}
