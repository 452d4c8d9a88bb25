//! Publishing: every message confirmed, every outcome told apart.
//!
//! One message at a time: the library gives a returned message to whichever confirm comes next, so that only with one
//! underway "unroutable" is said of the right one. Never retries: what an outcome means is the caller's to know.
//! Called by: the host's uplink, joining, and the control plane's link.

use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation};
use tokio::sync::Mutex;

use crate::connection::{LinkError, answered};
use crate::names::SIGNATURE_HEADER;

const PERSISTENT: u8 = 2;
const TRANSIENT: u8 = 1;
/// How long a broker may take to confirm. A broker that syncs a busy disk needs a second; one that is blocked by an
/// alarm confirms nothing, and the connection is dropped.
const CONFIRM_DEADLINE: Duration = Duration::from_secs(15);

/// One message.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// To which exchange; the empty name reaches a queue by its own name.
    pub exchange: &'a str,
    /// With which routing key.
    pub key: &'a str,
    /// The bytes.
    pub body: &'a [u8],
    /// The text of the signature over the bytes, put into the header `sig`.
    pub signature: Option<&'a str>,
    /// Whether it survives a restart of the broker.
    pub persistent: bool,
}

/// What the broker made of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Published {
    /// It stands in at least one queue.
    Routed,
    /// No queue wanted it: the topology is not there.
    Unroutable,
    /// A queue is full, or the broker could not keep it.
    Nacked,
}

/// A channel that publishes as one account.
#[derive(Debug)]
pub struct Publisher {
    channel: Mutex<Channel>,
    account: String,
}

impl Publisher {
    pub(crate) async fn open(connection: &lapin::Connection, account: String) -> Result<Self, LinkError> {
        let channel = answered("it did not open a channel", connection.create_channel()).await?;
        let confirming = channel.confirm_select(ConfirmSelectOptions::default());
        answered("it did not begin to confirm messages", confirming).await?;
        Ok(Self { channel: Mutex::new(channel), account })
    }

    /// Publishes and waits for the broker's word. After an error the whole connection is to be dropped.
    pub async fn publish(&self, message: Message<'_>) -> Result<Published, LinkError> {
        let mut properties = BasicProperties::default()
            .with_delivery_mode(if message.persistent { PERSISTENT } else { TRANSIENT })
            .with_user_id(self.account.as_str().into());
        if let Some(signature) = message.signature {
            let mut headers = FieldTable::default();
            headers.insert(SIGNATURE_HEADER.into(), AMQPValue::LongString(signature.into()));
            properties = properties.with_headers(headers);
        }
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let exchange = async {
            let channel = self.channel.lock().await;
            channel
                .basic_publish(message.exchange.into(), message.key.into(), options, message.body, properties)
                .await?
                .await
        };
        let confirmation = tokio::time::timeout(CONFIRM_DEADLINE, exchange)
            .await
            .map_err(|_| LinkError::Timeout("it did not confirm a message"))??;
        Ok(match confirmation {
            Confirmation::Ack(None) => Published::Routed,
            Confirmation::Ack(Some(_returned)) => Published::Unroutable,
            Confirmation::Nack(_) => Published::Nacked,
            // Confirms are switched on in `open`; a broker without them leaves us without the one thing we ask for.
            Confirmation::NotRequested => return Err(LinkError::Lost("it does not confirm messages".into())),
        })
    }
}
