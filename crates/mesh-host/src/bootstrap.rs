//! Raises the first node: secrets, then everything the bundle carries in order, then the node's link to itself.
//!
//! Every step looks first whether it is done, so a bootstrap that was killed goes on where it was, and a second one
//! changes nothing. What it raises is *carried*: the host keeps it running afterwards, with or without a mesh. It never
//! puts a secret into arguments, the environment or its output. Called by `mesh-host bootstrap` only.

mod api;
mod engine;
mod given;
mod secrets;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use mesh_bundle::{Bundle, bundle::CarriedResource};
use mesh_ids::{NodeName, ResourceId};
use mesh_wire::{JoinToken, Spec};
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

use self::api::Api;
pub use self::given::GivenImage;
use crate::{
    failure::{During as _, Failure},
    host::Host,
    intake::Trust,
    join::{self, JoinError},
    keys::{NodeKeys, read_private, remove_private, write_private},
    link_file::LinkFile,
    machine::{Machine, engine::images::take_bundle, facts},
    paths::Paths,
};

/// The port of the interface inside its container.
const API_PORT: u16 = 8443;
/// The port of the broker inside its container.
const BROKER_PORT: u16 = 5671;
/// How long the control plane may take from the start of its container to its first answer.
const SERVE_WITHIN: Duration = Duration::from_secs(90);
const ASK_EVERY: Duration = Duration::from_millis(250);
/// How often everything is looked at meanwhile: that costs more than asking.
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// What failed is tried again this often before a person is asked: a server that was slow, once, is up by then.
const ROUNDS: usize = 3;
/// The name the interface's certificate carries, whatever address is dialled.
const API_NAME: &str = "api.mesh.internal";

/// What is to be raised.
#[derive(Debug, Clone)]
pub struct Request {
    /// The folder of the bundle.
    pub bundle: PathBuf,
    /// The name of the node.
    pub node: NodeName,
    /// Where other machines reach this one's broker, as `host:port`; its own addresses where empty.
    pub advertise: Vec<String>,
    /// Images in place of the bundle's.
    pub images: Vec<GivenImage>,
}

/// What happens, for whoever shows it.
#[derive(Debug, Clone, Copy)]
pub enum Told<'a> {
    /// A stage begins.
    Stage(&'a str),
    /// Work on a resource begins.
    Resource {
        /// Its id.
        id: &'a str,
        /// Which of how many.
        number: usize,
        /// How many.
        of: usize,
        /// Why the bundle has it.
        why: &'a str,
    },
    /// A step of the stage or the resource is taken.
    Step(&'a str),
}

/// Hears what happens.
pub type Tell<'a> = &'a mut dyn FnMut(Told<'_>);

/// How it went.
#[derive(Debug, Clone)]
pub struct Raised {
    /// How many steps were taken on the machine.
    pub steps: usize,
    /// How many resources are as the bundle says.
    pub resources: usize,
    /// Whether the node was linked just now. Its service is the caller's to start.
    pub linked_now: bool,
    /// Where the interface is, for people: `https://ADDRESS:PORT`.
    pub api: String,
    /// The file with everything a client needs.
    pub context: PathBuf,
}

/// Why it stopped.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// It may not be done here.
    #[error("{0}")]
    Refused(String),
    /// What was asked for cannot be read.
    #[error("{0}")]
    Usage(String),
    /// It failed; the same command goes on from there.
    #[error("{0}")]
    Failed(#[from] Failure),
    /// The node could not be linked.
    #[error("link this node to its own mesh: {0}")]
    Join(#[from] JoinError),
}

/// Raises the first node.
pub async fn bootstrap(
    paths: &Paths,
    machine: &Machine,
    trust: Option<Trust>,
    request: &Request,
    tell: Tell<'_>,
) -> Result<Raised, BootstrapError> {
    refuse_elsewhere(paths, &request.node)?;
    tell(Told::Stage("reading the bundle"));
    let mut bundle = Bundle::read(&request.bundle.join("bundle.toml")).map_err(|error| {
        let hint = "; --bundle names the folder that holds bundle.toml";
        BootstrapError::Usage(format!("{}{hint}", Failure::of("the bundle cannot be used", &error)))
    })?;
    take_bundle(&request.bundle, &paths.bundle(), &mut |step| tell(Told::Step(step)))?;
    given::replace(&mut bundle, paths, &request.images, tell)?;

    tell(Told::Stage("making secrets"));
    let place = secrets::Place::of(&request.advertise);
    secrets::make(&bundle.secrets, paths, &place, machine.clock.now(), tell)?;

    tell(Told::Stage("raising what the bundle carries"));
    let mut host = Host::open(paths, machine.clone(), trust).await?;
    let resources = engine::without_needless(&bundle.resources, host.carried_before(), machine).await?;
    let carried: Vec<_> = resources.iter().map(|it| it.resource.clone()).collect();
    host.begin_to_carry(&carried).await?;
    let (steps, count) = raise(&mut host, resources, tell).await?;

    tell(Told::Stage("waiting for the control plane"));
    let port = published(&bundle.resources, API_PORT);
    let api = Api::new(paths, port)?;
    serve(&api, &mut host).await?;
    let reached = place.addresses().first().copied().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let url = format!("https://{}", SocketAddr::new(reached, port));
    let context = api.write_context(paths, &request.node, &url)?;

    let linked_now = LinkFile::read(paths)?.is_none();
    if linked_now {
        tell(Told::Stage("linking this node to its mesh"));
        let broker = SocketAddr::from((Ipv4Addr::LOCALHOST, published(&bundle.resources, BROKER_PORT)));
        link(paths, machine, &api, &request.node, broker, tell).await?;
    }
    Ok(Raised { steps, resources: count, linked_now, api: url, context })
}

/// A machine that is a node of some mesh is raised again only as the first node of that very mesh.
fn refuse_elsewhere(paths: &Paths, node: &NodeName) -> Result<(), BootstrapError> {
    let Some(link) = LinkFile::read(paths)? else { return Ok(()) };
    let own = read_private(&paths.secrets().join("mesh.id"))?;
    if own.as_deref().map(|id| id.trim()) != Some(link.mesh.as_str()) {
        return Err(BootstrapError::Refused(format!(
            "this machine is the node {} of mesh {}, which it did not raise: run 'mesh-host leave' first, or bootstrap \
             another machine",
            link.node, link.mesh
        )));
    }
    if link.node != *node {
        return Err(BootstrapError::Refused(format!(
            "this machine is the node {} of its mesh already: say --name {}",
            link.node, link.node
        )));
    }
    Ok(())
}

/// Applies the resources in order, telling of each that needs anything.
async fn raise(
    host: &mut Host,
    carried: Vec<CarriedResource>,
    tell: Tell<'_>,
) -> Result<(usize, usize), BootstrapError> {
    let whys: Vec<(ResourceId, String)> =
        carried.iter().map(|it| (it.resource.id.clone(), it.why.clone())).collect();
    let resources: Vec<_> = carried.into_iter().map(|it| it.resource).collect();
    let mut steps = 0;
    let mut last: Option<ResourceId> = None;
    for round in 1.. {
        let mut progress = |_, id: &ResourceId, step: &crate::step::Step| {
            if last.as_ref() != Some(id) {
                let place = whys.iter().position(|(known, _)| known == id);
                tell(Told::Resource {
                    id: id.as_str(),
                    number: place.map_or(0, |place| place + 1),
                    of: whys.len(),
                    why: place.and_then(|place| whys.get(place)).map_or("no longer carried", |(_, why)| why),
                });
                last = Some(id.clone());
            }
            tell(Told::Step(&step.to_string()));
        };
        let outcome = host.carry(resources.clone(), &mut progress).await?;
        steps += outcome.steps;
        let failed: Vec<String> =
            outcome.failed.iter().map(|((_, id), why)| format!("{id}: {why}")).collect();
        if failed.is_empty() {
            return Ok((steps, outcome.applied.len()));
        }
        if round == ROUNDS {
            return Err(BootstrapError::Failed(Failure::new(format!(
                "{} of {} resources are not as the bundle says:\n  {}\nwhat is done stays done: put that right and run the \
                 same command again",
                failed.len(),
                resources.len(),
                failed.join("\n  ")
            ))));
        }
        tell(Told::Step(&format!("not yet: {}", failed.join("; "))));
        sleep(ASK_EVERY).await;
    }
    Ok((steps, resources.len()))
}

/// Waits for the first answer. Until the service runs, nobody else starts a container again that ended.
async fn serve(api: &Api, host: &mut Host) -> Result<(), Failure> {
    let end = Instant::now() + SERVE_WITHIN;
    let mut look = Instant::now() + LOOK_EVERY;
    loop {
        let Err(unanswered) = api.version().await else { return Ok(()) };
        let now = Instant::now();
        if now >= look.min(end) {
            let outcome = host.round(&mut |_, _, _| ()).await?;
            look = Instant::now() + LOOK_EVERY;
            if now >= end {
                let failed: Vec<String> =
                    outcome.failed.iter().map(|((_, id), why)| format!("; {id}: {why}")).collect();
                return Err(Failure::new(format!(
                    "the control plane does not answer after {} s: {unanswered}{}; its log says why ('podman logs \
                     control'), and the same command goes on from here",
                    SERVE_WITHIN.as_secs(),
                    failed.concat()
                )));
            }
        }
        sleep(ASK_EVERY).await;
    }
}

async fn link(
    paths: &Paths,
    machine: &Machine,
    api: &Api,
    node: &NodeName,
    broker: SocketAddr,
    tell: Tell<'_>,
) -> Result<(), BootstrapError> {
    // Kept until it is used: after a kill the very same token is tried, which the control plane takes for the same join.
    let kept = paths.secrets().join("join.token");
    for again in [true, false] {
        // Read before the attempt: a signed refusal removes the keys.
        let made_for = NodeKeys::made_for(paths)?;
        let text = if let Some(text) = read_private(&kept)? {
            text
        } else {
            let text = Zeroizing::new(api.invite(node).await?);
            write_private(&kept, text.as_bytes())?;
            text
        };
        let mut token: JoinToken = text.parse().during("read the invitation")?;
        // The broker is on this very machine, whatever addresses it may have some day.
        token.brokers.insert(0, broker.to_string());
        let this = join::Machine {
            paths,
            facts: facts::facts(paths.root(), machine.engine.version().await),
            host_version: env!("CARGO_PKG_VERSION"),
            now: machine.clock.now(),
            deadline: join::DEADLINE,
        };
        match join::join(&token, &this, &mut |step| tell(Told::Step(step))).await {
            Ok(_) => break,
            // The kept one is of an earlier try: expired meanwhile, or of a control plane that lost its store.
            Err(error) if again && error.exit_code() == 3 => {
                let ours = made_for.as_deref() == Some(token.id.as_str());
                if ours && api.never_heard(node).await? {
                    // Nobody else ever held that token: it is this machine, killed after the control plane took it in
                    // and before it knew.
                    tell(Told::Step(
                        "removing the node that an interrupted bootstrap had made of this machine",
                    ));
                    api.remove(node).await?;
                }
                remove_private(&kept)?;
                tell(Told::Step(&format!("inviting again: {error}")));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(remove_private(&kept)?)
}

/// The port of the machine behind which this port of a container is.
fn published(resources: &[CarriedResource], inside: u16) -> u16 {
    let ports = resources.iter().filter_map(|carried| match &carried.resource.spec {
        Spec::Container(container) => Some(&container.ports),
        _ => None,
    });
    ports.flatten().find(|port| port.container == inside).map_or(inside, |port| port.host)
}
