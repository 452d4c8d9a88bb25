//! One method a request. Every request has a deadline, streams aside.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use mesh_api::{
    Applied, ApplyRequest, EventList, Invitation, InviteRequest, ModuleList, ModuleView, NodeList, NodeView,
    Plan, PlanRequest, Problem, Recovery, Version,
};
use mesh_ids::{ModuleName, NodeName};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use url::Url;

use crate::{
    context::Context,
    error::Error,
    stream::{LONGEST_SILENCE, Stream},
};

const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
const REQUEST_DEADLINE: Duration = Duration::from_mins(1);

/// A client of one mesh.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    api: String,
    token: SecretString,
}

impl Client {
    /// A client for this context. Resolves the name of the interface, connects to nothing yet.
    pub async fn new(context: &Context) -> Result<Self, Error> {
        let unusable = |reason: String| Error::Context { path: context.name.clone().into(), reason };
        let dialled: Url =
            context.api.parse().map_err(|error| unusable(format!("read {:?}: {error}", context.api)))?;
        let (Some(host), Some(port)) = (dialled.host_str(), dialled.port_or_known_default()) else {
            return Err(unusable(format!("{:?} names no host", context.api)));
        };
        if dialled.scheme() != "https" {
            return Err(unusable(format!("{:?} is not https", context.api)));
        }
        let addresses = resolve(host, port)
            .await
            .map_err(|reason| Error::Unreachable { api: context.api.clone(), reason })?;
        let base = format!("https://{}:{port}/v1/", context.server_name);
        let base = base.parse().map_err(|error| unusable(format!("read {base:?}: {error}")))?;
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(trusting_only(&context.ca_pem).map_err(unusable)?)
            .resolve_to_addrs(&context.server_name, &addresses)
            .connect_timeout(CONNECT_DEADLINE)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .https_only(true)
            .user_agent(concat!("mesh/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        Ok(Self { http, base, api: context.api.clone(), token: context.token.clone() })
    }

    /// What answers.
    pub async fn version(&self) -> Result<Version, Error> {
        self.get(&["version"]).await
    }

    /// All nodes.
    pub async fn nodes(&self) -> Result<NodeList, Error> {
        self.get(&["nodes"]).await
    }

    /// One node.
    pub async fn node(&self, name: &NodeName) -> Result<NodeView, Error> {
        self.get(&["nodes", name.as_str()]).await
    }

    /// A join token for a machine.
    pub async fn invite(&self, request: &InviteRequest) -> Result<Invitation, Error> {
        self.post(&["nodes", "invitations"], request).await
    }

    /// Takes a node out of the mesh.
    pub async fn remove_node(&self, name: &NodeName) -> Result<(), Error> {
        self.send(self.request(Method::DELETE, &["nodes", name.as_str()])?.timeout(REQUEST_DEADLINE))
            .await
            .map(|_| ())
    }

    /// Begins a node's history anew. Asked twice, it begins twice.
    pub async fn recover_node(&self, name: &NodeName) -> Result<Recovery, Error> {
        let path = ["nodes", name.as_str(), "generations"];
        let request = self.request(Method::POST, &path)?.timeout(REQUEST_DEADLINE);
        self.read(self.send(request).await?).await
    }

    /// All modules.
    pub async fn modules(&self) -> Result<ModuleList, Error> {
        self.get(&["modules"]).await
    }

    /// One module.
    pub async fn module(&self, name: &ModuleName) -> Result<ModuleView, Error> {
        self.get(&["modules", name.as_str()]).await
    }

    /// What a change would do.
    pub async fn plan(&self, request: &PlanRequest) -> Result<Plan, Error> {
        self.post(&["plans"], request).await
    }

    /// Does what was planned, or refuses.
    pub async fn apply(&self, request: &ApplyRequest) -> Result<Applied, Error> {
        self.post(&["changes"], request).await
    }

    /// At most `limit` events after the cursor, oldest first; the latest ones where there is no cursor.
    pub async fn events(&self, after: Option<&str>, limit: u32) -> Result<EventList, Error> {
        let mut request = self.request(Method::GET, &["events"])?.timeout(REQUEST_DEADLINE);
        request = request.query(&[("limit", limit.to_string().as_str())]);
        if let Some(after) = after {
            request = request.query(&[("after", after)]);
        }
        self.read(self.send(request).await?).await
    }

    /// Watches a list (`nodes`, `modules` or `events`) from the cursor on.
    pub async fn watch(&self, list: &str, after: Option<&str>) -> Result<Stream, Error> {
        let mut request = self.request(Method::GET, &[list, "watch"])?;
        if let Some(after) = after {
            request = request.query(&[("after", after)]);
        }
        let answer = tokio::time::timeout(LONGEST_SILENCE, self.send(request)).await;
        let response = answer.map_err(|_| Error::Unreachable {
            api: self.api.clone(),
            reason: format!("no answer within {} s", LONGEST_SILENCE.as_secs()),
        })??;
        Ok(Stream::new(self.api.clone(), response))
    }

    async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, Error> {
        let request = self.request(Method::GET, path)?.timeout(REQUEST_DEADLINE);
        self.read(self.send(request).await?).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<T, Error> {
        let request = self.request(Method::POST, path)?.timeout(REQUEST_DEADLINE).json(body);
        self.read(self.send(request).await?).await
    }

    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, Error> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| Error::Foreign {
                api: self.api.clone(),
                reason: "its address takes no path".to_owned(),
            })?
            .pop_if_empty()
            .extend(path);
        Ok(self.http.request(method, url).bearer_auth(self.token.expose_secret()))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.bytes().await.map_err(|error| self.unreachable(error))?;
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(Error::Refused(Box::new(problem))),
            Err(_) => Err(self.foreign(status)),
        }
    }

    async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T, Error> {
        let body = response.bytes().await.map_err(|error| self.unreachable(error))?;
        serde_json::from_slice(&body)
            .map_err(|error| Error::Foreign { api: self.api.clone(), reason: error.to_string() })
    }

    fn foreign(&self, status: StatusCode) -> Error {
        Error::Foreign { api: self.api.clone(), reason: format!("it answered {status} without saying why") }
    }

    fn unreachable(&self, error: reqwest::Error) -> Error {
        let error = error.without_url();
        let mut reason = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            let text = cause.to_string();
            if !reason.contains(&text) {
                reason = format!("{reason}: {text}");
            }
            source = cause.source();
        }
        Error::Unreachable { api: self.api.clone(), reason }
    }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match tokio::time::timeout(CONNECT_DEADLINE, tokio::net::lookup_host((host, port))).await {
        Ok(Ok(addresses)) => Ok(addresses.collect()),
        Ok(Err(error)) => Err(format!("look up {host}: {error}")),
        Err(_) => Err(format!("look up {host}: no answer within {} s", CONNECT_DEADLINE.as_secs())),
    }
}

/// TLS that trusts the CA in this PEM and no other: no system roots, no web roots.
fn trusting_only(ca_pem: &str) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("read its CA: {error}"))?;
        roots.add(certificate).map_err(|error| format!("read its CA: {error}"))?;
    }
    if roots.is_empty() {
        return Err("it has no CA".to_owned());
    }
    Ok(ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth())
}
