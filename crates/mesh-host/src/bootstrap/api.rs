//! What the bootstrap asks of the control plane it has just raised, over TLS by the mesh's own authority and no other.
//!
//! Names few things of the interface only: what answers, the invitation, and this node where an earlier bootstrap was
//! killed on the way into it. Everything else is a client's.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
};
use mesh_ids::NodeName;
use mesh_link::ClientTls;
use serde::{Deserialize, Serialize};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use super::API_NAME;
use crate::{
    failure::{During as _, Failure},
    http,
    keys::{read_private, write_private},
    paths::Paths,
};

/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The control plane of this machine.
pub(super) struct Api {
    place: SocketAddr,
    tls: ClientTls,
    authority: Zeroizing<String>,
    token: Zeroizing<String>,
}

/// What a client needs to speak to the interface, as it reads it.
#[derive(Serialize)]
struct Context<'a> {
    name: &'a str,
    api: &'a str,
    server_name: &'a str,
    ca_pem: &'a str,
    token: &'a str,
}

impl Api {
    /// The one that listens on this port of this machine.
    pub(super) fn new(paths: &Paths, port: u16) -> Result<Self, Failure> {
        let secret = |name: &str| {
            let path = paths.secrets().join(name);
            read_private(&path)?.ok_or_else(|| Failure::new(format!("{} is not there", path.display())))
        };
        let authority = secret("ca.pem")?;
        let tls = ClientTls::trusting(&authority, API_NAME).during("read the mesh's authority")?;
        let place = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Self { place, tls, authority, token: secret("admin.token")? })
    }

    /// Fails while nothing answers.
    pub(super) async fn version(&self) -> Result<(), Failure> {
        self.ask(Method::GET, "/v1/version", Bytes::new()).await.map(|_| ())
    }

    /// A token with which this machine joins.
    pub(super) async fn invite(&self, node: &NodeName) -> Result<String, Failure> {
        #[derive(Deserialize)]
        struct Invitation {
            token: String,
        }
        let body = serde_json::json!({ "node": node }).to_string();
        let answer = self.ask(Method::POST, "/v1/nodes/invitations", body.into()).await;
        let answer = answer.map_err(|failure| {
            Failure::new(format!(
                "invite {node}: {failure}; if a node of this name is this very machine from a bootstrap that was \
                 interrupted, run 'mesh node remove {node}' and then the same command again"
            ))
        })?;
        let Invitation { token } = serde_json::from_slice(&answer).during("read the invitation")?;
        Ok(token)
    }

    /// Whether there is a node of this name from which nothing was ever heard.
    pub(super) async fn never_heard(&self, node: &NodeName) -> Result<bool, Failure> {
        let asked = self.ask(Method::GET, "/v1/nodes", Bytes::new()).await;
        let answer = asked.map_err(|failure| failure.during("list the nodes"))?;
        is_never_heard(&answer, node)
    }

    /// Takes a node out of the mesh.
    pub(super) async fn remove(&self, node: &NodeName) -> Result<(), Failure> {
        let asked = self.ask(Method::DELETE, &format!("/v1/nodes/{node}"), Bytes::new()).await;
        asked.map(|_| ()).map_err(|failure| failure.during(format!("remove {node}")))
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Failure> {
        #[derive(Deserialize)]
        struct Problem {
            title: String,
            #[serde(default)]
            detail: String,
        }
        let what = format!("ask the control plane at {}", self.place);
        let bearer = Zeroizing::new(format!("Bearer {}", self.token.trim()));
        let mut bearer = HeaderValue::from_str(&bearer).during("read the admin's token")?;
        bearer.set_sensitive(true);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, API_NAME)
            .header(AUTHORIZATION, bearer)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .during(&what)?;
        let asked = async {
            let stream = TcpStream::connect(self.place).await.during(&what)?;
            let connector = TlsConnector::from(self.tls.config());
            let stream = connector.connect(self.tls.server_name().clone(), stream).await.during(&what)?;
            http::exchange(stream, request, &what).await
        };
        let late = |_| Failure::new(format!("{what}: no answer within {} s", ANSWER_WITHIN.as_secs()));
        let (status, body) = timeout(ANSWER_WITHIN, asked).await.map_err(late)??;
        if status.is_success() {
            return Ok(body);
        }
        Err(match serde_json::from_slice::<Problem>(&body) {
            Ok(Problem { title, detail }) if detail.is_empty() => Failure::new(title),
            Ok(Problem { title, detail }) => Failure::new(format!("{title}: {detail}")),
            Err(_) => unexplained(&what, status),
        })
    }

    /// Writes how the first person logs in, for root alone; says where.
    pub(super) fn write_context(
        &self,
        paths: &Paths,
        node: &NodeName,
        api: &str,
    ) -> Result<PathBuf, Failure> {
        let path = paths.state().join("admin-context.json");
        let context = Context {
            name: node.as_str(),
            api,
            server_name: API_NAME,
            ca_pem: &self.authority,
            token: self.token.trim(),
        };
        let json = Zeroizing::new(serde_json::to_vec_pretty(&context).during("write the admin's context")?);
        if read_private(&path)?.is_none_or(|known| known.as_bytes() != json.as_slice()) {
            write_private(&path, &json)?;
        }
        Ok(path)
    }
}

fn is_never_heard(list: &[u8], node: &NodeName) -> Result<bool, Failure> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        name: String,
        last_heard: Option<String>,
    }
    let List { items } = serde_json::from_slice(list).during("read the list of nodes")?;
    Ok(items.iter().any(|item| item.name == node.as_str() && item.last_heard.is_none()))
}

fn unexplained(what: &str, status: StatusCode) -> Failure {
    Failure::new(format!("{what}: it answered {status}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_was_heard_once_is_somebody() -> Result<(), Box<dyn std::error::Error>> {
        let list = br#"{"items": [{"name": "node-1", "last_heard": null, "state": "new"},
            {"name": "node-2", "last_heard": "2026-01-01T00:00:00Z"}], "cursor": ""}"#;
        for (node, expected) in [("node-1", true), ("node-2", false), ("node-3", false)] {
            assert_eq!(is_never_heard(list, &node.parse()?)?, expected, "{node}");
        }
        Ok(())
    }
}
