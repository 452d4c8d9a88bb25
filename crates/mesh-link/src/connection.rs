//! One AMQP connection: opened over our own TLS stream within a deadline, dropped whole when anything on it fails.
//!
//! Never recovers anything by itself: what was open on it is gone with it, and the supervisor opens another. Heartbeats
//! of 5 s, so that a cut is known in 10.
//! Called by: [`crate::supervise`], and by joining, which needs one connection once.

use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_compat::CompatExt as _;
use futures_util::StreamExt as _;
use lapin::ErrorKind;
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::tcp::AsyncTcpStream;
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use crate::address::Address;
use crate::consume::Consumer;
use crate::dial::{DialError, dial_with};
use crate::publish::Publisher;
use crate::runtime::{self, LinkStream};
use crate::tls::ClientTls;

const HEARTBEAT_S: u16 = 5;
/// We open a handful; an upper bound keeps a broken program from opening thousands.
const CHANNELS_MAX: u16 = 64;
/// How long a broker may take over anything it is asked on an open connection. Heartbeats tell of a broker that is gone;
/// this is for one that is there and does not answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(15);
/// How long a broker may take to say good-bye.
const CLOSE_DEADLINE: Duration = Duration::from_secs(2);

/// The largest frame of a connection. The library reserves its buffers by it. A message's header is one frame, which the
/// broker hands on as its publisher sent it, and a frame that is too large ends the connection of whoever receives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frames {
    /// 8 KiB: for whoever receives only what the control plane published.
    Small,
    /// 128 KiB, `RabbitMQ`'s own limit: for whoever receives what others publish.
    AsLargeAsTheBroker,
}

impl Frames {
    const fn bytes(self) -> u32 {
        match self {
            Self::Small => 8 << 10,
            Self::AsLargeAsTheBroker => 128 << 10,
        }
    }
}

/// Where a broker is, and as whom to enter.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Tried in order.
    pub addresses: Vec<Address>,
    /// Whom to trust, and under which name; independent of the address dialled.
    pub tls: ClientTls,
    /// The virtual host.
    pub vhost: String,
    /// The account; also set as the `user_id` of everything published.
    pub account: String,
    /// Its password.
    pub password: SecretString,
    /// What the broker's own pages call this connection.
    pub name: String,
    /// The largest frame it may be sent.
    pub frames: Frames,
}

/// Why no connection was opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No address gave a trusted TLS stream.
    #[error("reach the broker: {0}")]
    Dial(#[from] DialError),
    /// The broker does not let this account in, or not into this virtual host.
    #[error("the broker refused the account {account}: {reason}")]
    Refused {
        /// As whom we tried to enter.
        account: String,
        /// The broker's words.
        reason: String,
    },
    /// The connection broke while it was being opened.
    #[error("open a connection to the broker at {address}: {reason}")]
    Broken {
        /// Which of the addresses answered.
        address: Address,
        /// What happened.
        reason: String,
    },
}

/// Why a connection is of no more use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Cut, closed or broken: try again.
    #[error("the connection to the broker is lost: {0}")]
    Lost(String),
    /// The broker does not allow what was tried: trying again soon will not help.
    #[error("the broker refused: {0}")]
    Refused(String),
    /// The broker did not answer in time.
    #[error("the broker did not answer in time: {0}")]
    Timeout(&'static str),
}

impl From<lapin::Error> for LinkError {
    fn from(error: lapin::Error) -> Self {
        if is_refusal(&error) { Self::Refused(words(&error)) } else { Self::Lost(words(&error)) }
    }
}

/// Waits for the broker's answer, within the deadline. `what` completes "the broker did not answer in time: …".
pub(crate) async fn answered<T>(
    what: &'static str,
    answer: impl Future<Output = lapin::Result<T>>,
) -> Result<T, LinkError> {
    match timeout(ANSWER_DEADLINE, answer).await {
        Ok(outcome) => Ok(outcome?),
        Err(_) => Err(LinkError::Timeout(what)),
    }
}

fn is_refusal(error: &lapin::Error) -> bool {
    let ErrorKind::ProtocolError(error) = error.kind() else { return false };
    matches!(
        error.kind(),
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) | AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED)
    )
}

/// The broker's own words where it said any.
fn words(error: &lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(error) => error.get_message().to_string(),
        _ => error.to_string(),
    }
}

/// An open connection. Dropped, it is cut at once; [`Self::close`] says good-bye first.
#[derive(Debug)]
pub struct Connection {
    inner: lapin::Connection,
    breaker: Breaker,
    account: String,
    address: Address,
}

impl Connection {
    /// Opens one, within the deadline in all.
    pub async fn open(endpoint: &Endpoint, deadline: Duration) -> Result<Self, OpenError> {
        let end = Instant::now() + deadline;
        let breaker = Breaker::default();
        let (address, stream) = dial_with(&endpoint.addresses, deadline, async |stream| {
            breaker.watch(&stream);
            endpoint.tls.shake_hands(stream).await
        })
        .await?;
        // The library asks for a stream whenever it wants one; there is this one and no second.
        let stream = Mutex::new(Some(AsyncTcpStream::Plain(stream.compat())));
        let take = async move |_uri, _runtime| -> lapin::Result<AsyncTcpStream<LinkStream>> {
            let taken = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
            taken.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::ConnectionAborted).into())
        };
        let properties =
            lapin::ConnectionProperties::default().with_connection_name(endpoint.name.as_str().into());
        let opening = lapin::Connection::connector(uri(endpoint), runtime::current(), take, properties);
        let inner = match timeout_at(end, opening).await {
            Ok(Ok(inner)) => inner,
            Ok(Err(error)) if is_refusal(&error) => {
                let account = endpoint.account.clone();
                return Err(OpenError::Refused { account, reason: words(&error) });
            }
            Ok(Err(error)) => return Err(OpenError::Broken { address, reason: words(&error) }),
            Err(_) => {
                return Err(OpenError::Broken {
                    address,
                    reason: "no answer in time while logging in".into(),
                });
            }
        };
        Ok(Self { inner, breaker, account: endpoint.account.clone(), address })
    }

    /// Which of the addresses it was opened to.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A channel whose publishes the broker confirms.
    pub async fn publisher(&self) -> Result<Publisher, LinkError> {
        Publisher::open(&self.inner, self.account.clone()).await
    }

    /// Consumes a queue, with at most this many messages underway.
    pub async fn consume(&self, queue: &str, prefetch: u16) -> Result<Consumer, LinkError> {
        Consumer::open(&self.inner, queue, prefetch).await
    }

    /// Waits until the connection is of no more use, and says why.
    pub async fn lost(&self) -> LinkError {
        let mut events = Box::pin(self.inner.events_listener());
        if !self.inner.status().connected() {
            return LinkError::Lost("it was closed".to_owned());
        }
        while let Some(event) = events.next().await {
            if let lapin::Event::Error(error) = event {
                return error.into();
            }
        }
        LinkError::Lost("it was closed".to_owned())
    }

    /// Says good-bye, then cuts.
    pub async fn close(self) {
        let farewell = self.inner.close(200, "done".into());
        let _ = tokio::time::timeout(CLOSE_DEADLINE, farewell).await;
        drop(self.breaker);
    }
}

fn uri(endpoint: &Endpoint) -> AMQPUri {
    AMQPUri {
        scheme: AMQPScheme::AMQPS,
        authority: AMQPAuthority {
            userinfo: AMQPUserInfo {
                username: endpoint.account.clone(),
                password: endpoint.password.expose_secret().to_owned(),
            },
            // Said nowhere on the wire, and nothing is dialled by it.
            host: String::new(),
            port: AMQPScheme::AMQPS.default_port(),
        },
        vhost: endpoint.vhost.clone(),
        query: AMQPQueryString {
            frame_max: Some(endpoint.frames.bytes()),
            channel_max: Some(CHANNELS_MAX),
            heartbeat: Some(HEARTBEAT_S),
            ..AMQPQueryString::default()
        },
    }
}

/// A second handle on the socket. The library's own thread holds the first one and would wait on a silent broker;
/// shutting the socket down ends that thread too.
#[derive(Debug, Default, Clone)]
struct Breaker(Arc<Mutex<Option<std::net::TcpStream>>>);

impl Breaker {
    fn watch(&self, stream: &TcpStream) {
        let second = stream.as_fd().try_clone_to_owned().ok().map(std::net::TcpStream::from);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = second;
    }
}

impl Drop for Breaker {
    fn drop(&mut self) {
        if let Some(stream) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_broker_that_does_not_answer_is_given_up_in_words() {
        let begun = Instant::now();
        let outcome =
            answered("it did not open a channel", std::future::pending::<lapin::Result<()>>()).await;
        assert_eq!(outcome, Err(LinkError::Timeout("it did not open a channel")));
        assert_eq!(begun.elapsed(), ANSWER_DEADLINE);
        assert_eq!(answered("", std::future::ready(Ok(1))).await, Ok(1));
    }
}
