//! Publishes declarations: persistent, to be routed, confirmed. Several nodes at once, one at a time to each.

use std::convert::Infallible;

use futures_util::future::select_all;
use mesh_ids::NodeName;
use mesh_link::names::down_queue;
use mesh_link::{Connection, LinkError, Message, Published, Publisher};

use super::Directory;
use super::accounts::Accounts;
use super::outbox::{Outbox, Outgoing};

/// Publishes underway at once. A durable publish waits for the broker's disk; eight of them share one sync.
const AT_ONCE: usize = 8;

/// Publishes what stands in the outbox until the connection fails.
pub(super) async fn publish<D: Directory>(
    connection: &Connection,
    outbox: &Outbox,
    accounts: &Accounts<D>,
) -> Result<Infallible, LinkError> {
    let mut publishers = Vec::with_capacity(AT_ONCE);
    for _ in 0..AT_ONCE {
        publishers.push(connection.publisher().await?);
    }
    let workers = publishers.iter().map(|publisher| {
        Box::pin(async move {
            loop {
                let outgoing = outbox.next().await;
                place(publisher, outgoing, accounts).await?;
            }
        })
    });
    select_all(workers).await.0
}

/// Puts one declaration into its node's queue. What cannot be placed goes back and is tried with the next connection.
async fn place<D: Directory>(
    publisher: &Publisher,
    outgoing: Outgoing<'_>,
    accounts: &Accounts<D>,
) -> Result<(), LinkError> {
    let lost = |error: &dyn std::fmt::Display| LinkError::Lost(error.to_string());
    let node = outgoing.node.clone();
    let mut placed = send(publisher, &node, &outgoing.frame).await?;
    if placed == Published::Nacked {
        // Full of older declarations. The newest is whole, so that none of them is missed.
        accounts.purge_node(&node).await.map_err(|error| lost(&error))?;
        placed = send(publisher, &node, &outgoing.frame).await?;
    }
    if placed == Published::Unroutable {
        if !accounts.ensure_node(&node).await.map_err(|error| lost(&error))? {
            // Removed meanwhile.
            outgoing.done();
            return Ok(());
        }
        placed = send(publisher, &node, &outgoing.frame).await?;
    }
    if placed == Published::Routed {
        tracing::debug!(%node, bytes = outgoing.frame.len(), "a declaration is in its node's queue");
    } else {
        // The node's next heartbeat but one shows it to be behind, and it is offered again.
        tracing::warn!(%node, ?placed, "a declaration found no place in its node's queue");
    }
    outgoing.done();
    Ok(())
}

async fn send(publisher: &Publisher, node: &NodeName, frame: &[u8]) -> Result<Published, LinkError> {
    let queue = down_queue(node);
    // Through the exchange that reaches every queue by its name; only the control plane may use it.
    publisher
        .publish(Message { exchange: "", key: &queue, body: frame, signature: None, persistent: true })
        .await
}
