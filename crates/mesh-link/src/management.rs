//! The broker's management interface: HTTP with JSON over the same trusted TLS.
//!
//! One connection, one request at a time, each with a deadline from when it was asked for; a connection that was closed meanwhile is opened once
//! more. Knows the protocol and no topology. hyper by hand and not a whole HTTP client, because this crate is linked
//! into the host too and such a client brings the system's certificate authorities with it.
//! Called by: [`crate::Topology`].

use std::fmt::Write as _;
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::address::Address;
use crate::dial::{DialError, dial};
use crate::tls::ClientTls;

/// From asking to the whole answer: waiting for the requests before it, connecting and shaking hands included.
const REQUEST_DEADLINE: Duration = Duration::from_secs(20);
/// Ten thousand nodes' bindings are about 10 MB.
const LARGEST_ANSWER_BYTES: usize = 256 << 20;

/// Why a request to the management interface came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ManagementError {
    /// No trusted TLS stream.
    #[error("reach the broker's management interface: {0}")]
    Dial(#[from] DialError),
    /// Not allowed to, or not found, or malformed: the broker's answer.
    #[error("{what}: the broker answered {status}: {reason}")]
    Answer {
        /// What was asked.
        what: String,
        /// The status code.
        status: u16,
        /// The broker's words.
        reason: String,
    },
    /// The exchange broke off.
    #[error("{what}: {reason}")]
    Broken {
        /// What was asked.
        what: String,
        /// What happened.
        reason: String,
    },
}

/// A client of one broker's management interface.
pub struct Management {
    addresses: Vec<Address>,
    tls: ClientTls,
    authorization: SecretString,
    deadline: Duration,
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl std::fmt::Debug for Management {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Management").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Management {
    /// Connects when first asked something.
    pub fn new(addresses: Vec<Address>, tls: ClientTls, account: &str, password: &SecretString) -> Self {
        let pair = STANDARD.encode(format!("{account}:{}", password.expose_secret()));
        let authorization = SecretString::from(format!("Basic {pair}"));
        Self { addresses, tls, authorization, deadline: REQUEST_DEADLINE, sender: Mutex::new(None) }
    }

    /// Reads what stands at a path, e.g. `["queues", vhost]`; `None` where there is nothing.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &str,
    ) -> Result<Option<T>, ManagementError> {
        let what = format!("GET {}", path.join("/"));
        let (status, body) = self.exchange(&what, Method::GET, path, query, None).await?;
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => serde_json::from_slice(&body)
                .map(Some)
                .map_err(|e| ManagementError::Broken { what, reason: format!("read the answer: {e}") }),
            status => Err(answer(what, status, &body)),
        }
    }

    /// Puts or posts this JSON at a path.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &[&str],
        json: &serde_json::Value,
    ) -> Result<(), ManagementError> {
        let what = format!("{method} {}", path.join("/"));
        let (status, body) = self.exchange(&what, method, path, "", Some(json.to_string())).await?;
        if status.is_success() { Ok(()) } else { Err(answer(what, status, &body)) }
    }

    /// Removes what stands at a path; nothing there is as good.
    pub(crate) async fn delete(&self, path: &[&str]) -> Result<(), ManagementError> {
        let what = format!("DELETE {}", path.join("/"));
        let (status, body) = self.exchange(&what, Method::DELETE, path, "", None).await?;
        if status.is_success() || status == StatusCode::NOT_FOUND {
            Ok(())
        } else {
            Err(answer(what, status, &body))
        }
    }

    async fn exchange(
        &self,
        what: &str,
        method: Method,
        path: &[&str],
        query: &str,
        json: Option<String>,
    ) -> Result<(StatusCode, Bytes), ManagementError> {
        let broken = |reason: String| ManagementError::Broken { what: what.to_owned(), reason };
        let end = Instant::now() + self.deadline;
        let uri = uri(path, query);
        let body = Bytes::from(json.unwrap_or_default());
        let before = |_| broken("the requests before it took too long".to_owned());
        let mut sender = timeout_at(end, self.sender.lock()).await.map_err(before)?;
        // The broker closes an idle connection; that is seen only when it is used.
        let kept = match sender.take() {
            Some(mut kept) => {
                timeout_at(end, kept.ready()).await.is_ok_and(|ready| ready.is_ok()).then_some(kept)
            }
            None => None,
        };
        let reused = kept.is_some();
        let mut connection = match kept {
            Some(kept) => kept,
            None => self.connect(what, end).await?,
        };
        let request = || {
            Request::builder()
                .method(method.clone())
                .uri(&uri)
                .header(HOST, self.tls.server_name().to_str().as_ref())
                .header(AUTHORIZATION, self.authorization.expose_secret())
                .header(CONTENT_TYPE, "application/json")
                .body(Full::new(body.clone()))
                .map_err(|e| broken(e.to_string()))
        };
        let in_time = |_| broken("no answer in time".to_owned());
        let mut response = timeout_at(end, connection.send_request(request()?)).await.map_err(in_time)?;
        if response.is_err() && reused {
            connection = self.connect(what, end).await?;
            response = timeout_at(end, connection.send_request(request()?)).await.map_err(in_time)?;
        }
        let response = response.map_err(|e| broken(e.to_string()))?;
        let status = response.status();
        let body = timeout_at(end, Limited::new(response.into_body(), LARGEST_ANSWER_BYTES).collect())
            .await
            .map_err(in_time)?
            .map_err(|e| broken(e.to_string()))?
            .to_bytes();
        *sender = Some(connection);
        Ok((status, body))
    }

    async fn connect(&self, what: &str, end: Instant) -> Result<SendRequest<Full<Bytes>>, ManagementError> {
        let broken = |reason: String| ManagementError::Broken { what: what.to_owned(), reason };
        let left = end.saturating_duration_since(Instant::now());
        // Half of what is left, so that there is time to ask something.
        let (_, stream) = dial(&self.addresses, &self.tls, left / 2).await?;
        let (sender, connection) = timeout_at(end, handshake(TokioIo::new(stream)))
            .await
            .map_err(|_| broken("no HTTP connection in time".to_owned()))?
            .map_err(|e| broken(e.to_string()))?;
        // Ends by itself once the sender is dropped or the broker hangs up.
        tokio::spawn(connection);
        Ok(sender)
    }
}

fn answer(what: String, status: StatusCode, body: &[u8]) -> ManagementError {
    let said = serde_json::from_slice::<serde_json::Value>(body).ok();
    let reason = said
        .as_ref()
        .and_then(|said| said.get("reason").or_else(|| said.get("error")))
        .map_or_else(|| String::from_utf8_lossy(body).chars().take(200).collect(), ToString::to_string);
    ManagementError::Answer { what, status: status.as_u16(), reason }
}

fn uri(path: &[&str], query: &str) -> String {
    let mut uri = String::from("/api");
    for segment in path {
        uri.push('/');
        for byte in segment.bytes() {
            // RFC 3986, section 2.3: what needs no escape anywhere.
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                uri.push(char::from(byte));
            } else {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    if !query.is_empty() {
        uri.push('?');
        uri.push_str(query);
    }
    uri
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// One after the other they would take the deadline each.
    #[tokio::test]
    async fn requests_that_wait_for_each_other_before_a_silent_server_all_end_in_time() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = Address::new("127.0.0.1", listener.local_addr().unwrap().port());
        let authority = mesh_testkit::Authority::new();
        let tls = ClientTls::trusting(&authority.pem(), "broker.mesh.internal").unwrap();
        let mut management = Management::new(vec![address], tls, "control", &"secret".into());
        management.deadline = Duration::from_secs(1);
        let begun = Instant::now();
        let ask = || management.get::<serde_json::Value>(&["users"], "");
        let outcomes = futures_util::future::join_all((0..5).map(|_| ask())).await;
        assert!(begun.elapsed() < Duration::from_millis(1900), "{:?}", begun.elapsed());
        let words: Vec<String> =
            outcomes.into_iter().map(|outcome| outcome.unwrap_err().to_string()).collect();
        assert!(words[0].contains("no answer in time while shaking hands"), "{words:?}");
    }

    #[test]
    fn a_name_cannot_leave_its_place_in_a_path() {
        assert_eq!(uri(&["users", "a/b?c#d %"], ""), "/api/users/a%2Fb%3Fc%23d%20%25");
    }
}
