//! Consuming: bounded, acknowledged by hand, one message or a run of them at a time.
//!
//! Never rejects without requeue: a rejected message may be dead-lettered by its own header on some brokers.
//! Called by: the host's uplink, joining, and the control plane's link.

use futures_util::{FutureExt as _, StreamExt as _};
use lapin::Channel;
use lapin::message::Delivery as Raw;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable};

use crate::connection::{LinkError, answered};
use crate::names::SIGNATURE_HEADER;

/// A message as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The bytes.
    pub body: Vec<u8>,
    /// The account that published it, as the broker checked it; absent where the publisher did not say.
    pub account: Option<String>,
    /// The exchange it was published to.
    pub exchange: String,
    /// Its routing key.
    pub key: String,
    /// The header `sig`.
    pub signature: Option<String>,
    /// Whether it may have been delivered before.
    pub redelivered: bool,
    tag: u64,
}

impl Delivery {
    /// A message that no broker delivered, for a test of what reads it. It cannot be acknowledged.
    pub fn of(body: Vec<u8>, account: Option<&str>, signature: Option<&str>) -> Self {
        let text = |text: &str| text.to_owned();
        Self {
            body,
            account: account.map(text),
            exchange: String::new(),
            key: String::new(),
            signature: signature.map(text),
            redelivered: false,
            tag: 0,
        }
    }
}

/// One queue being consumed. Dropped, what was not acknowledged goes back to the queue.
#[derive(Debug)]
pub struct Consumer {
    channel: Channel,
    deliveries: lapin::Consumer,
}

impl Consumer {
    pub(crate) async fn open(
        connection: &lapin::Connection,
        queue: &str,
        prefetch: u16,
    ) -> Result<Self, LinkError> {
        let channel = answered("it did not open a channel", connection.create_channel()).await?;
        let bounded = channel.basic_qos(prefetch, BasicQosOptions::default());
        answered("it did not bound what it delivers at once", bounded).await?;
        let options = BasicConsumeOptions::default();
        let consuming = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
        let deliveries = answered("it did not begin to deliver a queue", consuming).await?;
        Ok(Self { channel, deliveries })
    }

    /// Waits for the next message. Cancel-safe.
    pub async fn next(&mut self) -> Result<Delivery, LinkError> {
        match self.deliveries.next().await {
            Some(Ok(raw)) => Ok(read(raw)),
            Some(Err(error)) => Err(error.into()),
            None => Err(LinkError::Lost("the queue is no longer delivered to us".to_owned())),
        }
    }

    /// The next message if it is here already.
    pub fn ready(&mut self) -> Result<Option<Delivery>, LinkError> {
        self.next().now_or_never().transpose()
    }

    /// Acknowledges this message.
    pub async fn acknowledge(&self, delivery: &Delivery) -> Result<(), LinkError> {
        self.acknowledged(delivery, BasicAckOptions { multiple: false }).await
    }

    /// Acknowledges this message and all that came before it.
    pub async fn acknowledge_through(&self, delivery: &Delivery) -> Result<(), LinkError> {
        self.acknowledged(delivery, BasicAckOptions { multiple: true }).await
    }

    async fn acknowledged(&self, delivery: &Delivery, options: BasicAckOptions) -> Result<(), LinkError> {
        // No broker answers it; what may take its time is a connection on which nothing can be sent.
        answered("an acknowledgement could not be sent", self.channel.basic_ack(delivery.tag, options)).await
    }
}

fn read(raw: Raw) -> Delivery {
    let signature =
        raw.properties.headers().as_ref().and_then(|headers| match headers.inner().get(SIGNATURE_HEADER) {
            Some(AMQPValue::LongString(text)) => Some(text.to_string()),
            _ => None,
        });
    Delivery {
        account: raw.properties.user_id().as_ref().map(ToString::to_string),
        exchange: raw.exchange.to_string(),
        key: raw.routing_key.to_string(),
        signature,
        redelivered: raw.redelivered,
        tag: raw.delivery_tag,
        body: raw.data,
    }
}
