//! Runs the control plane: opens the contexts on their stores, delivers their records to each other, declares, listens
//! to the nodes and serves the interface, until told to stop or until a part of it cannot go on.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, bail};
use mesh_identity::{Identity, Issuer};
use mesh_ids::{Clock, Timestamp};
use mesh_inventory::Inventory;
use mesh_link::authority_pin;
use mesh_manifest::Catalogue;
use mesh_record::Delivery;
use mesh_store::{Alone, Environment, Store};
use secrecy::ExposeSecret as _;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use crate::{
    declare::Declare,
    http::{self, Api, TlsListener, chain},
    link::{Link, LinkHandle},
    settings::Settings,
    statements::Statements,
};

/// PostgreSQL may be starting at the same moment.
const STORE_DEADLINE: Duration = Duration::from_mins(1);
/// A control plane that was told to stop may still be stopping.
const ALONE_DEADLINE: Duration = Duration::from_secs(30);
/// How often it is made sure that this is still the only control plane.
const ALONE_PERIOD: Duration = Duration::from_secs(5);
/// How often silence is judged: well within the time after which a node counts as gone.
const SILENCE_PERIOD: Duration = Duration::from_secs(1);
/// How often modules are placed anew where nodes came or went, and tokens ended whose time is over.
const UPKEEP_PERIOD: Duration = Duration::from_secs(5);
/// How long requests that are under way may take to end.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// Runs until told to stop. `served` is told the address of the interface once it is served.
pub async fn run(
    settings: Settings,
    environment: &impl Environment,
    served: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let clock: Clock = Arc::new(|| Timestamp::from(now()));
    let (inventory_store, identity_store) = open_stores(environment).await?;
    let alone = become_alone(&identity_store).await?;
    let catalogue =
        Catalogue::from_toml(&settings.images_toml).context("read the images the mesh carries")?;
    let inventory = Inventory::open(inventory_store.clone(), Arc::clone(&clock), catalogue);
    let identity = Identity::open(identity_store.clone(), Arc::clone(&clock), issuer(&settings)?);
    let token = settings.admin_token.expose_secret();
    identity.set_admin_token(token).await.context("take the administrator's token over")?;

    let stop = CancellationToken::new();
    let statements = Statements::new(inventory.clone(), identity.clone(), Arc::clone(&clock));
    let (link, handle) = Link::new(&settings.broker, &settings.ca_pem, statements.clone(), statements)
        .context("set the link up")?;
    let listener = TlsListener::bind(&settings.api).await.context("serve the interface")?;
    let api =
        Api::new(settings.mesh.clone(), inventory.clone(), identity.clone(), handle.clone(), stop.clone());
    let address = listener.address();
    tracing::info!(%address, mesh = %settings.mesh, "the interface is served");
    served(address);

    let mut parts = JoinSet::new();
    let ended = |name: &'static str| move |()| (name, anyhow::Ok(()));
    {
        use futures_util::FutureExt as _;
        let deliver = Delivery::new(identity.record(), inventory_store, inventory.reaction());
        parts.spawn(deliver.run(stop.clone()).map(ended("the delivery of identity's record")));
        parts.spawn(link.run(stop.clone()).map(ended("the link")));
        let declare = Declare::new(inventory.clone(), identity.clone(), handle.clone());
        parts.spawn(
            declare.run(stop.clone()).map(|outcome| ("declaring", outcome.map_err(anyhow::Error::from))),
        );
        parts.spawn(
            judge_silence(inventory.clone(), handle, clock, stop.clone()).map(ended("judging silence")),
        );
        parts.spawn(keep_up(inventory, identity, stop.clone()).map(ended("the upkeep")));
        parts.spawn(
            stay_alone(identity_store, alone, stop.clone()).map(|outcome| ("being the only one", outcome)),
        );
        parts.spawn(listener.serve(http::router(api), stop.clone()).map(ended("the interface")));
    }
    until_stopped(parts, stop).await
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of the control plane; everything else is handed it"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

async fn open_stores(environment: &impl Environment) -> anyhow::Result<(Store, Store)> {
    let inventory =
        Store::open(mesh_inventory::CONTEXT, environment).context("open the store of inventory")?;
    let identity = Store::open(mesh_identity::CONTEXT, environment).context("open the store of identity")?;
    for (store, migrations) in
        [(&inventory, mesh_inventory::migrations()), (&identity, mesh_identity::migrations())]
    {
        let context = store.context();
        store.connect_within(STORE_DEADLINE).await.with_context(|| format!("open the store of {context}"))?;
        let migrations = migrations.with_context(|| format!("open the store of {context}"))?;
        store.require_migrated(&migrations).await.with_context(|| format!("open the store of {context}"))?;
    }
    Ok((inventory, identity))
}

fn issuer(settings: &Settings) -> anyhow::Result<Issuer> {
    Ok(Issuer {
        mesh: settings.mesh.clone(),
        declare_key: settings.declare_key.clone(),
        brokers: settings.broker.advertised.clone(),
        server_name: settings.broker.server_name.clone(),
        ca_pin: authority_pin(&settings.ca_pem).context("read the mesh's CA")?,
    })
}

/// Two control planes on the same stores would both declare: the second waits a while for the first to end, then gives up.
async fn become_alone(store: &Store) -> anyhow::Result<Alone> {
    let deadline = Instant::now() + ALONE_DEADLINE;
    let mut period = interval(Duration::from_millis(500));
    loop {
        period.tick().await;
        if let Some(alone) = store.alone().await.context("become the only control plane")? {
            return Ok(alone);
        }
        if Instant::now() >= deadline {
            bail!(
                "another control plane works on this mesh's stores; waited {} s for it to end: stop it first, there is \
                 only ever one",
                ALONE_DEADLINE.as_secs()
            );
        }
    }
}

/// Ends with an error once another control plane has taken over, which it can where PostgreSQL ended our session.
async fn stay_alone(store: Store, mut alone: Alone, stop: CancellationToken) -> anyhow::Result<()> {
    let mut period = interval(ALONE_PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = period.tick() => {}
        }
        if alone.is_held().await {
            continue;
        }
        match store.alone().await {
            Ok(Some(taken)) => alone = taken,
            Ok(None) => bail!("another control plane works on this mesh's stores now"),
            Err(error) => tracing::warn!(error = %chain(&error), "the store does not answer"),
        }
    }
}

async fn judge_silence(
    inventory: Inventory,
    link: LinkHandle<Statements>,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut listening = None;
    let mut period = interval(SILENCE_PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = period.tick() => {}
        }
        listening = since(link.listening(), listening, &clock);
        let listening_since = listening.map(|(_, since)| since);
        if let Err(error) = inventory.judge_silence(listening_since).await {
            tracing::warn!(error = %chain(&error), "silence could not be judged");
        }
    }
}

/// Since when the heartbeats are listened to. Nobody is silent to whoever does not listen, and one that was interrupted
/// begins anew.
fn since(now: Option<u64>, before: Option<(u64, Timestamp)>, clock: &Clock) -> Option<(u64, Timestamp)> {
    let now = now?;
    Some(before.filter(|(number, _)| *number == now).unwrap_or_else(|| (now, clock())))
}

async fn keep_up(inventory: Inventory, identity: Identity, stop: CancellationToken) {
    let mut period = interval(UPKEEP_PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = period.tick() => {}
        }
        if let Err(error) = inventory.place_modules().await {
            tracing::warn!(error = %chain(&error), "modules could not be placed");
        }
        if let Err(error) = identity.expire_tokens().await {
            tracing::warn!(error = %chain(&error), "tokens could not be ended");
        }
    }
}

/// Waits for a signal, or for the first part that ends; then stops the others, within a deadline.
async fn until_stopped(
    mut parts: JoinSet<(&'static str, anyhow::Result<()>)>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listen for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for signals")?;
    let outcome = tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        Some(part) = parts.join_next() => {
            let (name, outcome) = part.context("a part of the control plane panicked")?;
            outcome.and_then(|()| bail!("it ended")).with_context(|| format!("keep {name} running"))
        }
    };
    stop.cancel();
    tracing::info!("stopping");
    let rest = async { while parts.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_DEADLINE, rest).await.is_err() {
        tracing::warn!("what was under way after {} s was cut off", STOP_DEADLINE.as_secs());
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_is_counted_from_its_own_beginning() {
        let at = Timestamp::from_unix_s;
        let clock = |seconds| -> Clock { Arc::new(move || at(seconds)) };
        assert_eq!(since(None, None, &clock(1)), None);
        let first = since(Some(1), None, &clock(2));
        assert_eq!(first, Some((1, at(2))));
        assert_eq!(since(Some(1), first, &clock(3)), first);
        assert_eq!(since(None, first, &clock(4)), None);
        assert_eq!(since(Some(2), first, &clock(5)), Some((2, at(5))), "an interruption nobody saw");
    }
}
