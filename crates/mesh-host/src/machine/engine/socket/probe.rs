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
    async fn address(&self, name: &str) -> Result<Place, Failure> {
        let networks =
            self.connect().await?.inspect(name).await?.network_settings.networks.unwrap_or_default();
        let places = networks.into_values().filter_map(|network| {
            Some(Place { address: network.ip_address?.parse().ok()?, prefix: network.prefix })
        });
        places
            .min_by_key(|place| place.address)
            .ok_or_else(|| Failure::new("it has no address in any network"))
    }
}

/// A container's address, and how many of its first bits are those of its network.
#[derive(Debug, Clone, Copy)]
struct Place {
    address: IpAddr,
    prefix: u32,
}

impl Place {
    /// Whether an address is in the same network.
    fn is_near(self, other: IpAddr) -> bool {
        let (ours, theirs, width) = match (self.address, other) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                (u128::from(ours.to_bits()), u128::from(theirs.to_bits()), 32)
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => (ours.to_bits(), theirs.to_bits(), 128),
            _ => return false,
        };
        self.prefix > 0 && (ours ^ theirs).checked_shr(width - self.prefix.min(width)).unwrap_or(0) == 0
    }
}

async fn connect(place: Place, port: u16) -> Result<TcpStream, Failure> {
    let what = format!("connect to its port {port}");
    let stream = TcpStream::connect(SocketAddr::new(place.address, port)).await.during(&what)?;
    // Without its network on this machine the question would leave the machine, and something there might answer.
    if !place.is_near(stream.local_addr().during(&what)?.ip()) {
        return Err(Failure::new(format!(
            "{what}: its address {} is in no network of this machine",
            place.address
        )));
    }
    Ok(stream)
}

/// Only the status counts: what else it says is not read.
async fn get(place: Place, name: &str, probe: &HttpProbe) -> Result<(), Failure> {
    let what = format!("GET :{}{}", probe.port, probe.path);
    let stream = connect(place, probe.port).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_in_the_same_network_is_near() {
        let near = |address: &str, prefix, other: &str| {
            let address = address.parse().expect("an address");
            Place { address, prefix }.is_near(other.parse().expect("an address"))
        };
        assert!(near("10.88.0.7", 24, "10.88.0.1"));
        assert!(!near("10.88.0.7", 24, "10.88.1.1"));
        assert!(!near("10.88.0.7", 16, "192.0.2.2"));
        assert!(near("fd00::7", 64, "fd00::1"));
        assert!(!near("fd00::7", 64, "2001:db8::1"));
        assert!(!near("10.88.0.7", 0, "10.88.0.1"), "its network is not known");
        assert!(!near("10.88.0.7", 32, "10.88.0.6"));
    }

    #[tokio::test]
    async fn an_answer_from_beyond_the_containers_network_is_none() {
        // It answers, and what answers is this machine: not in a network with it.
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = server.local_addr().expect("an address").port();
        let address = IpAddr::from([127, 0, 0, 1]);
        assert!(connect(Place { address, prefix: 8 }, port).await.is_ok());
        // The connection comes from 127.0.0.1.
        let address = IpAddr::from([127, 9, 9, 9]);
        let server = tokio::net::TcpListener::bind((address, 0)).await.expect("a port");
        let port = server.local_addr().expect("an address").port();
        let why = connect(Place { address, prefix: 24 }, port).await.expect_err("it is far").to_string();
        assert_eq!(
            why,
            format!("connect to its port {port}: its address 127.9.9.9 is in no network of this machine")
        );
    }
}
