//! Whether a machine becomes a node.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mesh_ids::{NodeName, Timestamp};
use mesh_seal::{Purpose, SealingKey, Signature, TokenKeys, VerifyingKey};
use mesh_wire::{Enrol, EnrolRefusal, EnrolRequest};

/// For how long after its use a token still answers the machine that used it, whose reply may have been lost.
pub(crate) const RETRY_FOR: Duration = Duration::from_mins(10);
/// A request is a few kilobytes; what is larger is not one.
const LARGEST: usize = 64 * 1024;

/// A token, as the issuer knows it.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub id: String,
    pub node: NodeName,
    pub labels: BTreeMap<String, String>,
    pub expires: Timestamp,
    /// What is derived from the secret; `None` once the token can no longer be used.
    pub keys: Option<TokenKeys>,
    /// The identity key of the machine that used it.
    pub used_by: Option<String>,
}

/// A request, read and not yet proven.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub enrol: Enrol,
    pub content: EnrolRequest,
}

/// The keys of a machine that proved that it has the token and its identity key.
#[derive(Debug, Clone)]
pub(crate) struct Proven {
    pub identity: VerifyingKey,
    pub sealing: SealingKey,
}

/// What comes of a request.
#[derive(Debug)]
pub(crate) enum Decision {
    /// The machine becomes the node.
    Join(Proven),
    /// It is the node already; it gets the same answer again.
    Repeat,
    /// Another machine used the token: somebody has a copy of it.
    Reused(Proven),
    /// It does not become a node.
    Refuse(EnrolRefusal),
}

/// Reads a request; `None` where it is not one and there is nobody to answer.
pub(crate) fn read_request(frame: &[u8]) -> Option<Request> {
    if frame.len() > LARGEST {
        return None;
    }
    let enrol: Enrol = serde_json::from_slice(frame).ok()?;
    let content: EnrolRequest = serde_json::from_slice(&enrol.request).ok()?;
    let printable = |text: &str| !text.chars().any(char::is_control);
    let fits = |text: &str, most: usize| text.len() <= most && printable(text);
    let id = content.token.len() <= 64 && content.token.bytes().all(|b| b.is_ascii_alphanumeric());
    (id && fits(&content.nonce, 64) && fits(&content.host_version, 64)).then_some(Request { enrol, content })
}

/// Decides. The proofs come first: to whoever cannot give them, nothing is said about the token but that it is not
/// theirs. `name_taken`: there is a node of the name.
pub(crate) fn decide(request: &Request, token: Option<&Token>, name_taken: bool, now: Timestamp) -> Decision {
    let Some(token) = token else { return Decision::Refuse(EnrolRefusal::Unknown) };
    let Some(keys) = &token.keys else {
        let used = token.used_by.is_some();
        return Decision::Refuse(if used { EnrolRefusal::Used } else { EnrolRefusal::Expired });
    };
    let Some(proven) = prove(request, keys) else { return Decision::Refuse(EnrolRefusal::Invalid) };
    if request.content.node != token.node {
        return Decision::Refuse(EnrolRefusal::Invalid);
    }
    match &token.used_by {
        _ if now >= token.expires => Decision::Refuse(EnrolRefusal::Expired),
        Some(key) if *key == proven.identity.to_string() => Decision::Repeat,
        Some(_) => Decision::Reused(proven),
        None if name_taken => Decision::Refuse(EnrolRefusal::NameTaken),
        None => Decision::Join(proven),
    }
}

fn prove(request: &Request, keys: &TokenKeys) -> Option<Proven> {
    let Request { enrol, content } = request;
    keys.verify_mac(&enrol.request, &enrol.mac).ok()?;
    let identity: VerifyingKey = content.identity_key.parse().ok()?;
    let signature = Signature::from_bytes(&enrol.signature).ok()?;
    identity.verify(Purpose::Enrol, &enrol.request, &signature).ok()?;
    let tunnel = STANDARD.decode(&content.tunnel_key).ok()?;
    (tunnel.len() == 32).then_some(())?;
    Some(Proven { identity, sealing: content.sealing_key.parse().ok()? })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mesh_seal::{OpeningKey, SigningKey, TokenSecret};

    struct Machine {
        identity: SigningKey,
        sealing: OpeningKey,
    }

    impl Machine {
        fn new() -> Self {
            Self { identity: SigningKey::generate(), sealing: OpeningKey::generate() }
        }

        fn request(&self, keys: &TokenKeys, change: impl FnOnce(&mut EnrolRequest)) -> Request {
            let mut content = EnrolRequest {
                token: "t1".to_owned(),
                node: "node-2".parse().unwrap(),
                identity_key: self.identity.verifying_key().to_string(),
                sealing_key: self.sealing.sealing_key().to_string(),
                tunnel_key: STANDARD.encode([3; 32]),
                nonce: "n".to_owned(),
                facts: mesh_wire::Facts::default(),
                host_version: "0.1.0".to_owned(),
            };
            change(&mut content);
            let request = serde_json::to_vec(&content).unwrap();
            let mac = keys.mac(&request).to_vec();
            let signature = self.identity.sign(Purpose::Enrol, &request).to_bytes().to_vec();
            let enrol = Enrol { request, mac, signature };
            read_request(&serde_json::to_vec(&enrol).unwrap()).unwrap()
        }
    }

    fn token(keys: &TokenKeys) -> Token {
        Token {
            id: "t1".to_owned(),
            node: "node-2".parse().unwrap(),
            labels: BTreeMap::new(),
            expires: Timestamp::from_unix_s(100),
            keys: Some(keys.clone()),
            used_by: None,
        }
    }

    fn word(decision: &Decision) -> String {
        match decision {
            Decision::Join(_) => "join".to_owned(),
            Decision::Repeat => "repeat".to_owned(),
            Decision::Reused(_) => "reused".to_owned(),
            Decision::Refuse(refusal) => format!("{refusal:?}"),
        }
    }

    #[test]
    fn a_token_binds_to_the_first_identity_key() {
        let keys = TokenSecret::generate().derive("t1");
        let (machine, other, mut token) = (Machine::new(), Machine::new(), token(&keys));
        let decided = |token: Option<&Token>, machine: &Machine, taken, seconds| {
            let request = machine.request(&keys, |_| {});
            word(&decide(&request, token, taken, Timestamp::from_unix_s(seconds)))
        };
        assert_eq!(decided(None, &machine, false, 0), "Unknown");
        assert_eq!(decided(Some(&token), &machine, false, 99), "join");
        assert_eq!(decided(Some(&token), &machine, false, 100), "Expired");
        assert_eq!(decided(Some(&token), &machine, true, 0), "NameTaken");
        token.used_by = Some(machine.identity.verifying_key().to_string());
        assert_eq!(decided(Some(&token), &machine, true, 0), "repeat");
        assert_eq!(decided(Some(&token), &other, true, 0), "reused");
        token.keys = None;
        assert_eq!(decided(Some(&token), &machine, true, 0), "Used");
        token.used_by = None;
        assert_eq!(decided(Some(&token), &machine, false, 0), "Expired");
    }

    #[test]
    fn without_its_proofs_a_request_is_refused() {
        let keys = TokenSecret::generate().derive("t1");
        let guessed = TokenSecret::generate().derive("t1");
        let (machine, token) = (Machine::new(), token(&keys));
        let now = Timestamp::from_unix_s(0);
        let refused = |request: &Request| word(&decide(request, Some(&token), false, now));
        assert_eq!(refused(&machine.request(&guessed, |_| {})), "Invalid", "guessed secret");
        let foreign = Machine::new().identity.verifying_key().to_string();
        assert_eq!(
            refused(&machine.request(&keys, |r| r.identity_key = foreign)),
            "Invalid",
            "another's key"
        );
        let other: NodeName = "node-3".parse().unwrap();
        assert_eq!(refused(&machine.request(&keys, |r| r.node = other)), "Invalid", "another name");
        assert_eq!(refused(&machine.request(&keys, |r| r.sealing_key = "x".to_owned())), "Invalid");
        assert_eq!(refused(&machine.request(&keys, |r| r.tunnel_key = "AAAA".to_owned())), "Invalid");
        let mut changed = machine.request(&keys, |_| {});
        changed.enrol.request.push(b' ');
        assert_eq!(refused(&changed), "Invalid", "changed on the way");
    }

    #[test]
    fn what_is_no_request_is_not_answered() {
        assert!(read_request(b"").is_none());
        assert!(read_request(b"{}").is_none());
        assert!(read_request(&vec![b' '; LARGEST + 1]).is_none());
    }
}
