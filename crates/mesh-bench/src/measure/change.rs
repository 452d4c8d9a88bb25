//! From declared to applied, as somebody sees it who watches the modules: the clock runs from the moment the change is
//! sent to the control plane until the stream says that the node reported all of it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use mesh_api::{ApplyRequest, Change, InstanceState, ModuleView, PlanRequest};
use mesh_client::{Client, Context, Stream};
use mesh_lab::Node;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::cost;
use crate::ground::{Ground, WORKER};
use crate::peer::ansible::{Ansible, invocation};
use crate::row::{Aim, Peer, Row, Unit, milliseconds};
use crate::samples::Samples;
use crate::table::number;
use crate::workload;

/// A changed file that restarts an existing unit.
const CHANGE_MS: f64 = 100.0;
const CHANGES: usize = 25;
const UNITS: usize = 11;
const RELOADS: usize = 11;
/// Of the peer, which takes seconds.
const PEER_CHANGES: usize = 5;

/// How long a change may take before it counts as lost. Images of the first one may have to be loaded.
const DEADLINE: Duration = Duration::from_mins(2);

/// A changed file that restarts an existing unit.
pub(crate) fn changed_file(ground: &mut Ground) -> anyhow::Result<Vec<Row>> {
    ground.step("a changed file that restarts a unit");
    let cache = ground.cache().to_owned();
    let raised = ground.mesh()?;
    let taken = change("bench-change", raised.context()?, raised.node(WORKER)?)?;
    let what =
        format!("declared to applied as a watcher sees it: a changed file restarts a unit, {CHANGES} times");
    let row = Row::new("change", what, Unit::Milliseconds, taken);
    let peer = changed_by_peer(raised.node(WORKER)?, &cache).map_err(|error| format!("{error:#}"));
    Ok(vec![Row { aim: Some(Aim::at_most(CHANGE_MS)), peer: Some(peer), ..row }])
}

/// The same on a node that keeps a hundred other resources, all of which every round looks at.
pub(crate) fn changed_file_beside(ground: &mut Ground) -> anyhow::Result<Vec<Row>> {
    ground.step("a changed file that restarts a unit, beside 100 resources");
    let raised = ground.mesh()?;
    let mut watcher = Watcher::of(raised.context()?)?;
    watcher.apply(&workload::hundred("bench-idle", WORKER)).context("apply 100 resources")?;
    let taken = change("bench-beside", raised.context()?, raised.node(WORKER)?)?;
    let what = format!("the same beside 100 resources, two of them running containers, {CHANGES} times");
    Ok(vec![Row::new("change-beside", what, Unit::Milliseconds, taken)])
}

/// Changes the file so many times; how long each took.
fn change(name: &str, context: &Context, node: &Node) -> anyhow::Result<Samples> {
    let mut watcher = Watcher::of(context)?;
    watcher.apply(&workload::file_and_unit(name, 0, WORKER)).context("make the file and the unit")?;
    let mut taken = Vec::new();
    for version in 1..=CHANGES {
        let unit = format!("{name}.service");
        let before = invocation(node, &unit)?;
        taken.push(watcher.apply(&workload::file_and_unit(name, version, WORKER))?);
        ensure!(invocation(node, &unit)? != before, "{unit} was not restarted by change {version}");
    }
    let held = node.read(&format!("/etc/{name}.conf"))?;
    ensure!(held == format!("VERSION={CHANGES}\n"), "the file holds {held:?} after the last change");
    milliseconds(&taken).context("nothing was changed")
}

fn changed_by_peer(node: &Node, cache: &std::path::Path) -> anyhow::Result<Peer> {
    let ansible = Ansible::install(node, cache)?;
    let taken = cost::wall(&ansible.change(PEER_CHANGES)?);
    let samples = milliseconds(&taken).context("nothing was changed")?;
    Ok(Peer {
        name: ansible.name,
        what: "copies the file and restarts the unit, run on the node itself",
        samples,
    })
}

/// A new unit. systemd has to read its unit files again for it, which takes what it takes on this machine.
pub(crate) fn new_unit(ground: &mut Ground) -> anyhow::Result<Vec<Row>> {
    ground.step("a new unit");
    let raised = ground.mesh()?;
    let node = raised.node(WORKER)?;
    let mut watcher = Watcher::of(raised.context()?)?;
    let mut taken = Vec::new();
    let mut reloads = Vec::new();
    // One after the other, so that both see the same machine.
    for number in 0..UNITS.max(RELOADS) {
        let name = format!("bench-unit-{number}");
        taken.push(watcher.apply(&workload::unit(&name, WORKER))?);
        node.run(["systemctl", "is-active", "--quiet", &format!("{name}.service")])
            .with_context(|| format!("{name} is applied but not active"))?;
        reloads.push(cost::of(node, &["systemctl", "daemon-reload"], "")?);
    }
    let reloads = milliseconds(&cost::wall(&reloads)).context("nothing was reloaded")?;
    let reload = Row::new("reload", "systemctl daemon-reload on the same node", Unit::Milliseconds, reloads);
    let because = format!(
        "{} ms for a change, and {} ms that a daemon-reload takes here",
        number(CHANGE_MS),
        number(reload.figure())
    );
    let aim = Aim { at_most: CHANGE_MS + reload.figure(), because: Some(because) };
    let what = "declared to applied as a watcher sees it: a new unit (aim: that of a change + reload)";
    let samples = milliseconds(&taken).context("no unit was made")?;
    Ok(vec![Row { aim: Some(aim), ..Row::new("unit", what, Unit::Milliseconds, samples) }, reload])
}

/// Somebody who changes modules and watches them.
pub(crate) struct Watcher {
    runtime: Runtime,
    client: Client,
    stream: Stream,
}

impl Watcher {
    /// Begins to watch.
    pub(crate) fn of(context: &Context) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (client, stream) = runtime.block_on(async {
            let client = Client::new(context).await?;
            let stream = client.watch("modules", None).await?;
            Ok::<_, mesh_client::Error>((client, stream))
        })?;
        Ok(Self { runtime, client, stream })
    }

    /// Applies a module and watches until every node reported all of it; how long that took from sending it.
    pub(crate) fn apply(&mut self, manifest: &Value) -> anyhow::Result<Duration> {
        let Self { runtime, client, stream } = self;
        let version = manifest["version"].as_str().unwrap_or_default();
        let applying = async {
            let what = Change::Apply { manifest: manifest.clone() };
            let plan = client.plan(&PlanRequest { what: what.clone() }).await?;
            ensure!(!plan.nodes.is_empty(), "{} version {version} changes nothing", plan.module);
            let begun = Instant::now();
            client.apply(&ApplyRequest { index: plan.index, what }).await?;
            loop {
                let event = stream.next().await?.context("the watched stream ended")?;
                if event.event != "module" {
                    continue;
                }
                let module: ModuleView = event.read()?;
                if module.name == plan.module && module.version == version && is_applied(&module)? {
                    return Ok(begun.elapsed());
                }
            }
        };
        let applied = runtime.block_on(async { tokio::time::timeout(DEADLINE, applying).await });
        let name = &manifest["name"];
        applied.with_context(|| format!("{name} version {version} was not applied within {DEADLINE:?}"))?
    }

    /// Whether the control plane hears of the node.
    pub(crate) fn is_connected(&self, node: &str) -> anyhow::Result<bool> {
        let listed = self.runtime.block_on(self.client.nodes())?;
        let state = listed.items.iter().find(|listed| listed.name.as_str() == node).map(|node| node.state);
        Ok(state == Some(mesh_api::NodeState::Connected))
    }
}

/// Whether every node reported all of it; a failure there is an error.
fn is_applied(module: &ModuleView) -> anyhow::Result<bool> {
    if let Some(failed) = module.instances.iter().find(|instance| instance.state == InstanceState::Failed) {
        bail!("{} failed on {}: {:?}", module.name, failed.node, failed.failed);
    }
    let applied = |instance: &mesh_api::InstanceView| instance.state == InstanceState::Applied;
    Ok(!module.instances.is_empty() && module.instances.iter().all(applied))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn module(states: &[&str]) -> ModuleView {
        let instance = |(number, state): (usize, &&str)| {
            let failed = if *state == "failed" {
                serde_json::json!({"file:/a": "no space"})
            } else {
                serde_json::json!({})
            };
            serde_json::json!({ "node": format!("node-{number}"), "state": state, "failed": failed })
        };
        let instances: Vec<Value> = states.iter().enumerate().map(instance).collect();
        serde_json::from_value(serde_json::json!({ "name": "m", "version": "1", "instances": instances }))
            .unwrap()
    }

    #[test]
    fn a_module_is_applied_once_every_node_says_so() {
        assert!(is_applied(&module(&["applied", "applied"])).unwrap());
        assert!(!is_applied(&module(&["applied", "pending"])).unwrap());
        assert!(!is_applied(&module(&[])).unwrap(), "a module that is nowhere yet");
        let error = is_applied(&module(&["applied", "failed"])).unwrap_err().to_string();
        assert!(error.contains("node-1") && error.contains("no space"), "{error}");
    }
}
