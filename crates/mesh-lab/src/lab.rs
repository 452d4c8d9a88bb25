//! A lab: its network and nodes, raised, found again and taken down.
//!
//! What exists is read from the engine's labels each time; a lab half raised is finished by [`Lab::up`] and cleared away
//! by [`Lab::down`]. It never touches what does not carry its label. What runs on the nodes is [`crate::raise`]'s.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mesh_client::ContextStore;

use crate::context;
use crate::engine::{Engine, NodeDraft};
use crate::error::LabError;
use crate::image::{self, NodeKind};
use crate::machine;
use crate::node::{Node, NodeState};
use crate::owner::{Owner, processes_with};
use crate::place::{LabName, Lock, Place};
use crate::progress::Progress;
use crate::subnet::{self, Subnet};
use crate::wait::wait_for;

/// On everything a lab makes: which lab it belongs to.
const LAB: &str = "mesh.lab";
/// On a node's container: which node it is.
const NODE: &str = "mesh.lab.node";
/// On a node's container: the address it was raised with.
const ADDRESS: &str = "mesh.lab.address";
/// On the network: who takes the lab down.
const OWNER: &str = "mesh.lab.owner";

/// How long to wait for another command that works on the same lab.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long one of the engine's calls may outlive the `mesh-lab` that made it.
const STRAGGLERS: Duration = Duration::from_mins(2);

/// What lab to raise.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name; labs of different names do not see each other.
    pub name: LabName,
    /// How many nodes, 1 to 9.
    pub nodes: u8,
    /// Whether node-1 begins without a container engine, so that the host has to raise it.
    pub bare: bool,
    /// Where the built programs, the bundle and the node images are.
    pub dist: PathBuf,
    /// An OCI archive or layout to boot the nodes from, instead of `dist/node-images`.
    pub image: Option<PathBuf>,
    /// The nodes' network, instead of a free one.
    pub subnet: Option<Subnet>,
    /// Who may take it down when the one that raised it has not.
    pub owner: Owner,
    /// Whether dropping the handle takes it down.
    pub taken_down: bool,
    /// Whether the bundle is put on the nodes (a mesh needs it; nodes alone do not).
    pub bundle: bool,
}

impl Options {
    /// Three nodes with the bundle, from `dist`, that stay until somebody takes them down.
    pub fn new(name: LabName, dist: &Path) -> Self {
        Self {
            name,
            nodes: 3,
            bare: false,
            dist: dist.to_owned(),
            image: None,
            subnet: None,
            owner: Owner::Person,
            taken_down: false,
            bundle: true,
        }
    }

    /// Nodes alone, for a test: taken down when the handle is dropped, or by the next lab if the process died. With
    /// `MESH_LAB_KEEP=1` in the environment the lab of a failed test stays.
    pub fn for_test(name: LabName, dist: &Path, nodes: u8) -> Self {
        let owner = if keeps() { Owner::Person } else { Owner::this_process() };
        Self { nodes, owner, taken_down: true, bundle: false, ..Self::new(name, dist) }
    }

    fn kind_of(&self, number: u8) -> NodeKind {
        if self.bare && number == 1 { NodeKind::Bare } else { NodeKind::Ready }
    }
}

/// A lab that is up.
pub struct Lab {
    name: LabName,
    engine: Engine,
    subnet: Subnet,
    nodes: Vec<Node>,
    place: Place,
    /// Whether dropping this handle takes the lab down.
    taken_down: bool,
    changed: bool,
}

/// What [`Lab::down`] removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Containers, volumes and networks, by name.
    pub names: Vec<String>,
}

impl Lab {
    /// Raises the nodes, or what is missing of them; what is there is left as it is.
    pub fn up(options: &Options, progress: &Progress) -> Result<Self, LabError> {
        progress.step("engine: looking at this machine");
        let engine = machine::engine(progress)?;
        progress.detail(&engine.described());
        clear_abandoned(&engine, progress)?;
        let place = Place::of(&options.name)?;
        let mut lab = Self {
            name: options.name.clone(),
            subnet: Subnet::new(Ipv4Addr::UNSPECIFIED, 32),
            engine,
            nodes: Vec::new(),
            place,
            taken_down: options.taken_down,
            changed: false,
        };
        // The lock ends with this call, before a lab that could not be raised is dropped, which takes it down.
        lab.ensure(options, progress)?;
        Ok(lab)
    }

    fn ensure(&mut self, options: &Options, progress: &Progress) -> Result<(), LabError> {
        let _lock = self.place.lock(PATIENCE)?;
        wait_stragglers(&self.name)?;
        self.ensure_network(options, progress)?;
        for number in 1..=options.nodes {
            let node = self.node_at(number);
            self.ensure_node(&node, options, number, progress)?;
            self.nodes.push(node);
        }
        for node in &self.nodes {
            let booted = node.wait_booted()?;
            progress.step(&format!("{}: booted at {}{booted}", node.name, node.address));
        }
        Ok(())
    }

    /// The lab as it is. One that was never raised is [`LabError::NotUp`].
    pub fn open(name: &LabName) -> Result<Self, LabError> {
        let engine = Engine::open()?;
        let not_up = || LabError::NotUp { lab: name.to_string() };
        let subnet = engine.network(&network_name(name))?.ok_or_else(not_up)?.subnet;
        let place = Place::of(name)?;
        let mut lab = Self {
            name: name.clone(),
            engine,
            subnet,
            nodes: Vec::new(),
            place,
            taken_down: false,
            changed: false,
        };
        let containers = lab.engine.containers(LAB, name.as_str())?;
        for container in lab.engine.inspect(&containers)? {
            let node = container.label(NODE).map(str::to_owned);
            let address = container.label(ADDRESS).and_then(|address| address.parse().ok());
            if let (Some(node), Some(address)) = (node, address) {
                lab.nodes.push(lab.node_named(node, address));
            }
        }
        if lab.nodes.is_empty() {
            return Err(not_up());
        }
        lab.nodes.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(lab)
    }

    /// Its name.
    pub fn name(&self) -> &LabName {
        &self.name
    }

    /// The nodes' network.
    pub fn subnet(&self) -> Subnet {
        self.subnet
    }

    /// Its nodes, in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether [`Lab::up`] found something to do.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Result<&Node, LabError> {
        self.nodes.iter().find(|node| node.name == name).ok_or_else(|| LabError::NoNode {
            lab: self.name.to_string(),
            wanted: name.to_owned(),
            present: self.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// The node of this name, if it is switched on.
    pub fn running_node(&self, name: &str) -> Result<&Node, LabError> {
        let node = self.node(name)?;
        if node.is_running()? {
            return Ok(node);
        }
        Err(LabError::WrongState {
            node: name.to_owned(),
            state: "is switched off".to_owned(),
            next: format!("`mesh-lab start {name}` switches it on"),
        })
    }

    /// All nodes as they are now.
    pub fn state(&self) -> Result<Vec<NodeState>, LabError> {
        self.nodes.iter().map(Node::state).collect()
    }

    /// Writes what is worth reading after a failure into `folder`.
    pub fn dump(&self, folder: &Path) -> Result<(), LabError> {
        self.nodes.iter().try_for_each(|node| node.dump(folder))
    }

    /// Removes everything of this lab, also of one half raised. Images stay, for the next one.
    pub fn down(name: &LabName, progress: &Progress) -> Result<Removed, LabError> {
        let place = Place::of(name)?;
        let lock = place.lock(PATIENCE)?;
        wait_stragglers(name)?;
        let engine = match Engine::open() {
            Ok(engine) => engine,
            // Without an engine there is nothing to remove but our own folder.
            Err(LabError::NotStarted { .. }) => {
                place.remove(&lock)?;
                return Ok(Removed::default());
            }
            Err(error) => return Err(error),
        };
        clear(&engine, name, &place, &lock, progress)
    }

    /// Removes the node images no lab uses, which [`Lab::down`] keeps.
    pub fn remove_images(progress: &Progress) -> Result<(), LabError> {
        image::remove_all(&Engine::open()?, progress)
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    fn ensure_network(&mut self, options: &Options, progress: &Progress) -> Result<(), LabError> {
        let network = network_name(&self.name);
        if let Some(there) = self.engine.network(&network)? {
            self.subnet = there.subnet;
            return Ok(());
        }
        let owner = options.owner.written();
        let labels = [(LAB, self.name.as_str()), (OWNER, owner.as_str())];
        let table = fs::read_to_string("/proc/net/route").unwrap_or_default();
        let routes = subnet::routes(&table);
        let candidates: Vec<Subnet> = match options.subnet {
            Some(subnet) => vec![subnet],
            None => subnet::candidates(self.name.as_str())
                .filter(|range| subnet::is_free(*range, &routes))
                .collect(),
        };
        let mut refusal = LabError::NoSubnet { tried: "10.231.0.0/16".to_owned() };
        // Another lab may take a range between our look and our asking, and the engine knows networks without routes.
        for subnet in candidates.into_iter().take(16) {
            match self.engine.create_network(&network, subnet, &labels) {
                Ok(()) => {
                    progress.step(&format!("network: {network} ({subnet})"));
                    self.subnet = subnet;
                    self.changed = true;
                    return Ok(());
                }
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    fn ensure_node(
        &mut self,
        node: &Node,
        options: &Options,
        number: u8,
        progress: &Progress,
    ) -> Result<(), LabError> {
        let labels = [(LAB, self.name.as_str()), (NODE, &node.name), (ADDRESS, &node.address.to_string())];
        if self.engine.containers(LAB, self.name.as_str())?.contains(&node.container) {
            if !node.is_running()? {
                progress.step(&format!("{}: switching it on", node.name));
                self.engine.start(&node.container)?;
                self.changed = true;
            }
            return Ok(());
        }
        let source = options.image.clone().unwrap_or_else(|| image::default_source(&options.dist));
        let image = image::provide(&self.engine, &source, options.kind_of(number), progress)?;
        let containers = format!("{}-containers", node.container);
        self.engine.ensure_volume(&containers, &labels[..2])?;
        let journal = self.place.make_journal(&node.name)?;
        // Containers on a volume, since overlay on overlay is refused; the journal outside, since it must outlive a boot.
        let mut volumes = vec![
            format!("{containers}:/var/lib/containers"),
            format!("{}:/var/log/journal", journal.display()),
        ];
        if options.bundle {
            let bundle = options.dist.join("bundle");
            let bundle = fs::canonicalize(&bundle)
                .map_err(|_| LabError::NotBuilt { path: bundle, next: "`cargo xtask bundle` builds it" })?;
            volumes.push(format!("{}:/usr/lib/mesh/bundle:ro", bundle.display()));
        }
        progress.step(&format!("{}: booting", node.name));
        self.engine.boot(&NodeDraft {
            container: &node.container,
            host_name: &node.name,
            image: &image,
            network: &node.network,
            address: node.address,
            hardware: &node.hardware_address(),
            labels: &labels,
            volumes: &volumes,
        })?;
        self.changed = true;
        Ok(())
    }

    fn node_at(&self, number: u8) -> Node {
        self.node_named(format!("node-{number}"), self.subnet.of_node(number))
    }

    fn node_named(&self, name: String, address: Ipv4Addr) -> Node {
        Node {
            engine: self.engine.clone(),
            container: format!("{}-{name}", network_name(&self.name)),
            network: network_name(&self.name),
            journal: self.place.journal(&name),
            address,
            name,
        }
    }
}

impl Drop for Lab {
    /// A test's lab goes with the test; a failed test's journals stay, and it says where.
    fn drop(&mut self) {
        if !self.taken_down {
            return;
        }
        if std::thread::panicking() {
            let folder = std::env::temp_dir().join(format!("mesh-lab-{}", self.name));
            let told = match self.dump(&folder) {
                Ok(()) => format!("the journals of lab {} are in {}", self.name, folder.display()),
                Err(error) => format!("the journals of lab {} could not be kept: {error}", self.name),
            };
            Progress::to(std::io::stderr()).step(&told);
            if keeps() {
                return;
            }
        }
        if let Err(error) = Self::down(&self.name, &Progress::silent()) {
            Progress::to(std::io::stderr())
                .step(&format!("lab {} could not be taken down: {error}", self.name));
        }
    }
}

/// Whether the lab of a failed test is to stay.
fn keeps() -> bool {
    std::env::var_os("MESH_LAB_KEEP").is_some_and(|value| value == "1")
}

fn network_name(lab: &LabName) -> String {
    format!("mesh-lab-{lab}")
}

fn clear(
    engine: &Engine,
    name: &LabName,
    place: &Place,
    lock: &Lock,
    progress: &Progress,
) -> Result<Removed, LabError> {
    let mut names = Vec::new();
    let containers = engine.containers(LAB, name.as_str())?;
    if !containers.is_empty() {
        progress.step(&format!("nodes: removing {}", containers.join(", ")));
        engine.remove_containers(&containers)?;
        names.extend(containers);
    }
    let volumes = engine.volumes(LAB, name.as_str())?;
    if !volumes.is_empty() {
        progress.step(&format!("volumes: removing {}", volumes.join(", ")));
        engine.remove_volumes(&volumes)?;
        names.extend(volumes);
    }
    // The network last: by its label a lab half removed is found again.
    let network = network_name(name);
    if engine.network(&network)?.is_some() {
        progress.step(&format!("network: removing {network}"));
        engine.remove_network(&network)?;
        names.push(network);
    }
    context::remove(&ContextStore::of_this_person(), place, name)?;
    place.remove(lock)?;
    Ok(Removed { names })
}

/// Waits for the engine's calls that make something for this lab: a killed `mesh-lab` leaves the one it was in the
/// middle of, and what that makes after we looked would be left over.
fn wait_stragglers(name: &LabName) -> Result<(), LabError> {
    let label = format!("{LAB}={name}");
    wait_for(&format!("the engine to finish what a killed mesh-lab began for lab {name}"), STRAGGLERS, || {
        match processes_with(&["podman", "--label", &label])[..] {
            [] => Ok(()),
            [ref first, ..] => Err(format!("process {first} still works on it")),
        }
    })
}

/// Takes down the labs of tests whose process is gone without having done so.
fn clear_abandoned(engine: &Engine, progress: &Progress) -> Result<(), LabError> {
    for network in engine.networks(LAB)? {
        let Some(there) = engine.network(&network)? else { continue };
        let name = there.labels.get(LAB).and_then(|name| name.parse::<LabName>().ok());
        let owner = there.labels.get(OWNER).map(|text| Owner::read(text));
        if let (Some(name), Some(owner)) = (name, owner)
            && owner.is_gone()
        {
            progress.step(&format!("lab {name}: its test is gone, taking it down"));
            let place = Place::of(&name)?;
            // Somebody else may be doing the same right now.
            if let Ok(lock) = place.lock(Duration::ZERO) {
                clear(engine, &name, &place, &lock, progress)?;
            }
        }
    }
    Ok(())
}
