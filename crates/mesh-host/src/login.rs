//! A fresh login to the broker: a new connection, over TLS and with the node's own account, beside the one the uplink has.
//!
//! An open connection says little: it may outlive the way it was opened by. A login says that the broker can be found,
//! reached, trusted and entered now. Never uses the uplink's connection, publishes nothing, consumes nothing.
//! Called by whoever changes what the way to the broker depends on: before the change, and after it.

use std::time::Duration;

use async_trait::async_trait;
use mesh_link::{Connection, Endpoint, OpenError};

use crate::{failure::Failure, link_file::LinkFile};

/// What a login came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedIn {
    /// The broker let the node in.
    Yes,
    /// The broker was reached and trusted, and did not let the node in: nothing about the way to it is wrong.
    Refused(Failure),
    /// It was not reached, or is not to be trusted.
    No(Failure),
}

impl LoggedIn {
    /// Whether the way to the broker is whole.
    pub const fn reached(&self) -> bool {
        matches!(self, Self::Yes | Self::Refused(_))
    }
}

/// The door to the broker for a login.
#[async_trait(?Send)]
pub trait Login {
    /// Logs in and says good-bye, within this time.
    async fn log_in(&self, within: Duration) -> LoggedIn;
}

/// The login of a node that has joined.
#[derive(Debug, Clone)]
pub struct BrokerLogin(Endpoint);

impl BrokerLogin {
    /// Of the node that joined as this file says.
    pub fn new(link: &LinkFile) -> Result<Self, Failure> {
        let mut endpoint = link.endpoint()?;
        endpoint.name = format!("{} (a login to see whether one is possible)", endpoint.name);
        Ok(Self(endpoint))
    }
}

#[async_trait(?Send)]
impl Login for BrokerLogin {
    async fn log_in(&self, within: Duration) -> LoggedIn {
        match Connection::open(&self.0, within).await {
            Ok(connection) => {
                connection.close().await;
                LoggedIn::Yes
            }
            Err(error @ OpenError::Refused { .. }) => LoggedIn::Refused(Failure::of("log in afresh", &error)),
            Err(error) => LoggedIn::No(Failure::of("log in afresh", &error)),
        }
    }
}
