//! From a list of addresses to one TLS stream: tried in order, each with its share of the time, the failures kept.
//!
//! Never trusts a server other than as [`ClientTls`] says, and never waits beyond its deadline.
//! Called by: [`crate::Connection`], [`crate::Management`], [`crate::learn_authority`].

use std::fmt;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::client::TlsStream;

use crate::address::Address;
use crate::tls::{ClientTls, TlsRefusal};

/// What went wrong at one address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialFailure {
    /// The name has no address.
    #[error("the name does not resolve: {0}")]
    Resolve(String),
    /// Nobody listens, or no route leads there.
    #[error("{0}")]
    Unreachable(String),
    /// Nothing came back in time.
    #[error("no answer in time while {0}")]
    Timeout(&'static str),
    /// Somebody answered, and was refused.
    #[error("{0}")]
    Tls(#[from] TlsRefusal),
}

impl DialFailure {
    /// How much a person learns from it: a refused certificate says more than silence.
    fn weight(&self) -> u8 {
        match self {
            Self::Tls(TlsRefusal::Handshake(_)) => 3,
            Self::Tls(_) => 4,
            Self::Unreachable(_) => 2,
            Self::Timeout(_) => 1,
            Self::Resolve(_) => 0,
        }
    }
}

/// No address led anywhere. Prints every one that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialError {
    tried: Vec<(Option<Address>, DialFailure)>,
}

impl DialError {
    pub(crate) fn nowhere(failure: impl Into<DialFailure>) -> Self {
        Self { tried: vec![(None, failure.into())] }
    }

    /// The failure that says most.
    pub fn foremost(&self) -> Option<&DialFailure> {
        self.tried.iter().map(|(_, failure)| failure).max_by_key(|failure| failure.weight())
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tried.is_empty() {
            return f.write_str("there is no address to try");
        }
        for (index, (address, failure)) in self.tried.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            match address {
                Some(address) => write!(f, "{separator}{address}: {failure}")?,
                None => write!(f, "{separator}{failure}")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for DialError {}

/// Opens a verified TLS stream to the first address that gives one. Returns which it was.
pub(crate) async fn dial(
    addresses: &[Address],
    tls: &ClientTls,
    deadline: Duration,
) -> Result<(Address, TlsStream<TcpStream>), DialError> {
    dial_with(addresses, deadline, |stream| tls.shake_hands(stream)).await
}

/// The same with another way to shake hands, for a library that wants its own kind of stream.
pub(crate) async fn dial_with<S, F>(
    addresses: &[Address],
    deadline: Duration,
    shake_hands: impl Fn(TcpStream) -> F,
) -> Result<(Address, S), DialError>
where
    F: Future<Output = Result<S, TlsRefusal>>,
{
    let end = Instant::now() + deadline;
    let mut tried = Vec::new();
    for (index, address) in addresses.iter().enumerate() {
        // What is left is shared among those not tried yet, so that a silent first address does not eat it all.
        let left = end.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() - index).unwrap_or(1);
        match dial_one(address, &shake_hands, Instant::now() + share).await {
            Ok(stream) => return Ok((address.clone(), stream)),
            Err(failure) => tried.push((Some(address.clone()), failure)),
        }
    }
    Err(DialError { tried })
}

async fn dial_one<S, F>(
    address: &Address,
    shake_hands: &impl Fn(TcpStream) -> F,
    end: Instant,
) -> Result<S, DialFailure>
where
    F: Future<Output = Result<S, TlsRefusal>>,
{
    let resolved = timeout_at(end, tokio::net::lookup_host((address.host(), address.port())))
        .await
        .map_err(|_| DialFailure::Timeout("resolving the name"))?
        .map_err(|e| DialFailure::Resolve(e.to_string()))?;
    let mut last = DialFailure::Resolve("it has no address".to_owned());
    for socket in resolved {
        match timeout_at(end, TcpStream::connect(socket)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true).map_err(|e| DialFailure::Unreachable(e.to_string()))?;
                return timeout_at(end, shake_hands(stream))
                    .await
                    .map_err(|_| DialFailure::Timeout("shaking hands"))?
                    .map_err(DialFailure::Tls);
            }
            Ok(Err(error)) => last = DialFailure::Unreachable(error.to_string()),
            Err(_) => last = DialFailure::Timeout("connecting"),
        }
    }
    Err(last)
}
