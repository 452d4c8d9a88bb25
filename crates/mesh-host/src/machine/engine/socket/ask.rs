//! What is asked of the engine without bollard: what its containers do.
//!
//! bollard knows Docker's states only and refuses the whole list for one container in a state of Podman's, such as the
//! `stopped` that every container passes through. Here only the members that matter are read, each as it is.

use std::collections::BTreeMap;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode, header::HOST};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::{net::UnixStream, time::timeout};

use super::{ANSWER_WITHIN, Connection};
use crate::{
    failure::{During as _, Failure},
    http,
};

/// A container in the list of all.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Listed {
    #[serde(default)]
    pub(super) names: Vec<String>,
    #[serde(default)]
    pub(super) state: String,
    pub(super) labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) created: i64,
    pub(super) network_settings: Option<ListedNetworks>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
#[expect(clippy::zero_sized_map_values, reason = "a set would not read the map that the engine writes")]
pub(super) struct ListedNetworks {
    pub(super) networks: Option<BTreeMap<String, serde::de::IgnoredAny>>,
}

/// One container.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Inspected {
    pub(super) state: InspectedState,
    #[serde(default)]
    pub(super) network_settings: InspectedNetworks,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct InspectedNetworks {
    pub(super) networks: Option<BTreeMap<String, InspectedNetwork>>,
}

#[derive(Deserialize)]
pub(super) struct InspectedNetwork {
    #[serde(rename = "IPAddress")]
    pub(super) ip_address: Option<String>,
    #[serde(default, rename = "IPPrefixLen")]
    pub(super) prefix: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct InspectedState {
    #[serde(default)]
    pub(super) status: String,
    #[serde(default)]
    pub(super) exit_code: i64,
    #[serde(default, rename = "OOMKilled")]
    pub(super) oom_killed: bool,
}

impl Connection {
    /// All containers, running or not.
    pub(super) async fn list(&self) -> Result<Vec<Listed>, Failure> {
        self.get("/containers/json?all=true", "list the containers").await
    }

    /// The container of this name.
    pub(super) async fn inspect(&self, name: &str) -> Result<Inspected, Failure> {
        // Names are letters, digits, '.', '_' and '-': nothing to escape.
        self.get(&format!("/containers/{name}/json"), "look at the container").await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, what: &str) -> Result<T, Failure> {
        #[derive(Deserialize)]
        struct Refused {
            message: String,
        }
        let asked = async {
            let stream =
                UnixStream::connect(&self.socket).await.during(format!("connect to {}", self.socket))?;
            let request = Request::get(format!("/v{}{path}", self.docker.client_version()))
                .header(HOST, "engine")
                .body(Full::<Bytes>::default())
                .during(what)?;
            http::exchange(stream, request, what).await
        };
        let late = |_| Failure::new(format!("{what}: the engine did not answer in time"));
        let (status, body) = timeout(ANSWER_WITHIN, asked).await.map_err(late)??;
        if status != StatusCode::OK {
            let said =
                serde_json::from_slice::<Refused>(&body).map_or_else(|_| status.to_string(), |it| it.message);
            return Err(Failure::new(format!("the engine says: {said}")));
        }
        serde_json::from_slice(&body).during(format!("{what}: read what the engine says"))
    }
}
