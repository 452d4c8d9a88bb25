//! Asks a container whether it is ready: over HTTP or TCP from the host, or by a command inside it.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::{Request, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use mesh_wire::kinds::{HttpProbe, Ready};
use tokio::{net::TcpStream, time::timeout};

use super::{super::Execution, EngineSocket, execute};
use crate::failure::{During as _, Failure};

impl EngineSocket {
    pub(super) async fn ask_it(&self, name: &str, ready: &Ready, within: Duration) -> Result<(), Failure> {
        let answer = async {
            match (&ready.http, ready.tcp) {
                (Some(http), _) => get(self.address(name).await?, name, http).await,
                (None, Some(port)) => connect(self.address(name).await?, port).await.map(drop),
                (None, None) => {
                    let words: Vec<&str> = ready.command.iter().map(String::as_str).collect();
                    let ask = Execution::new(name, "ask whether it is ready", &words);
                    // The limit around it is the one that counts.
                    let ask = Execution { within_s: u32::MAX, ..ask };
                    execute::execute(&self.docker().await?, &ask).await?.succeeded().map(drop)
                }
            }
        };
        timeout(within, answer).await.unwrap_or_else(|_| {
            Err(Failure::new(format!("it did not answer within {:.1} s", within.as_secs_f32())))
        })
    }

    /// Where the host reaches the container: its address in one of its networks.
    async fn address(&self, name: &str) -> Result<IpAddr, Failure> {
        let networks =
            self.connect().await?.inspect(name).await?.network_settings.networks.unwrap_or_default();
        let addresses = networks.into_values().filter_map(|network| network.ip_address?.parse().ok());
        addresses.min().ok_or_else(|| Failure::new("it has no address in any network"))
    }
}

async fn connect(address: IpAddr, port: u16) -> Result<TcpStream, Failure> {
    let to = SocketAddr::new(address, port);
    TcpStream::connect(to).await.during(format!("connect to its port {port}"))
}

/// Only the status counts: what else it says is not read.
async fn get(address: IpAddr, name: &str, probe: &HttpProbe) -> Result<(), Failure> {
    let what = format!("GET :{}{}", probe.port, probe.path);
    let stream = connect(address, probe.port).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.during(&what)?;
    let request = Request::get(&probe.path)
        .header(HOST, name)
        .header("user-agent", "mesh-host")
        .body(Empty::<Bytes>::new())
        .during(&what)?;
    let answer = async { sender.send_request(request).await.during(&what).map(|answer| answer.status()) };
    tokio::pin!(connection, answer);
    let status = tokio::select! {
        biased;
        status = &mut answer => status?,
        // The connection may end a moment before its last answer is read.
        ended = &mut connection => {
            ended.during(&what)?;
            answer.await?
        }
    };
    if status.is_success() || status.is_redirection() {
        return Ok(());
    }
    Err(Failure::new(format!("{what} answers {status}")))
}
