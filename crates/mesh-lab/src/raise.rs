//! Makes a mesh of a lab's nodes: the host on every node, the bootstrap on node-1, a join on the others.
//!
//! Every step looks first whether it is done, so that raising again changes nothing and a raise that was killed is
//! finished by the next. Tokens travel by standard input only. It knows the command lines of `mesh-host` and `mesh`, and
//! nothing of what they do. Called by `mesh-lab up` and by system tests.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use mesh_bundle::Digest;
use mesh_bundle::hashing::HashingReader;
use mesh_client::ContextStore;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::context;
use crate::error::LabError;
use crate::lab::Lab;
use crate::node::{HOST_UNIT, Node};
use crate::place::{read_if_there, remove_if_there, write_private};
use crate::process::Call;
use crate::progress::Progress;
use crate::wait::wait_for;

/// Where the host's program lies on a node.
const HOST: &str = "/usr/local/bin/mesh-host";
/// Where a node finds the bundle.
const BUNDLE: &str = "/usr/lib/mesh/bundle";
/// There once the node is linked to a mesh.
const LINK: &str = "/var/lib/mesh-host/link.json";
/// There once the host of a node is a service.
const UNIT_FILE: &str = "/etc/systemd/system/mesh-host.service";
/// There once the control plane serves: how the first person logs in.
const ADMIN_CONTEXT: &str = "/var/lib/mesh-host/admin-context.json";
/// The broker's port, the only one nodes need to reach.
const BROKER_PORT: u16 = 5671;

/// Loading the bundle's images, PostgreSQL's first start and RabbitMQ's take most of it; on a bare machine the engine's
/// packages too.
const BOOTSTRAP: Duration = Duration::from_mins(10);
/// A join says within a minute why it failed.
const JOIN: Duration = Duration::from_secs(90);
/// From joined to connected.
const CONNECT: Duration = Duration::from_mins(1);
/// One call of the command line.
const CALL: Duration = Duration::from_secs(30);

/// A mesh on a lab's nodes.
pub struct Mesh<'a> {
    lab: &'a Lab,
    program: PathBuf,
    changed: bool,
}

/// A node as the control plane sees it; what the lab needs of `mesh node list --json`.
#[derive(Clone, Debug, Deserialize)]
pub struct ListedNode {
    /// Its name.
    pub name: String,
    /// `connected`, `quiet`, `unreachable`, `joining`.
    pub state: String,
}

#[derive(Deserialize)]
struct Invitation {
    token: String,
}

impl<'a> Mesh<'a> {
    /// Makes the mesh, or what is missing of it.
    pub fn raise(lab: &'a Lab, dist: &Path, progress: &Progress) -> Result<Self, LabError> {
        let mut mesh = Self { lab, program: built(dist, "mesh")?, changed: false };
        let host = Program::read(built(dist, "mesh-host")?)?;
        tell_of_another_bundle(lab, dist, progress)?;
        let (first, others) =
            lab.nodes().split_first().ok_or_else(|| LabError::NotUp { lab: lab.name().to_string() })?;
        // The other nodes get their program while the first, which everything waits for, is at work.
        mesh.changed |= thread::scope(|scope| {
            let putting = at_once(scope, others, |node| host.put(node, progress));
            let done = host.put(first, progress).and_then(|put| Ok(put | bootstrap(first, progress)?));
            let done = on_node(first, done);
            Ok::<bool, LabError>(done? | finished(putting)?)
        })?;
        context::keep(&ContextStore::of_this_person(), lab.place(), lab.name(), &first.read(ADMIN_CONTEXT)?)?;
        mesh.changed |=
            thread::scope(|scope| finished(at_once(scope, others, |node| mesh.join(node, progress))))?;
        mesh.wait_connected(progress)?;
        Ok(mesh)
    }

    /// Whether [`Mesh::raise`] found something to do.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// Runs the command line against this mesh and reads the JSON it prints.
    pub fn ask<T: DeserializeOwned>(&self, args: &[&str]) -> Result<T, LabError> {
        let call =
            Call::new(&self.program, CALL).args(["--context", self.lab.name().as_str(), "--json"]).args(args);
        let command = call.shown();
        let output = call.run()?;
        serde_json::from_str(&output.stdout)
            .map_err(|error| LabError::Unreadable { command, why: format!("{error} in {:?}", output.stdout) })
    }

    /// The nodes as the control plane sees them.
    pub fn nodes(&self) -> Result<Vec<ListedNode>, LabError> {
        self.ask(&["node", "list"])
    }

    fn join(&self, node: &Node, progress: &Progress) -> Result<bool, LabError> {
        if node.is_linked()? {
            return node.ensure_host(progress);
        }
        if node.is_cut()? {
            progress.step(&format!(
                "{0}: cut off, so it cannot join (mesh-lab heal {0}, then up again)",
                node.name()
            ));
            return Ok(false);
        }
        let kept = self.lab.place().token(node.name());
        // A token of a raise that was killed may be used up or expired; a new one costs nothing.
        let token = match read_if_there(&kept)? {
            Some(token) => token,
            None => self.invite(node, &kept)?,
        };
        progress.step(&format!("{}: joining", node.name()));
        let join = |token: String| node.run_with_input([HOST, "join"], &token, JOIN);
        match join(token) {
            Ok(_) => {}
            Err(LabError::Failed { .. }) if !node.has_file(LINK)? => {
                remove_if_there(&kept)?;
                join(self.invite(node, &kept)?)?;
            }
            Err(error) => return Err(error),
        }
        remove_if_there(&kept)?;
        Ok(true)
    }

    fn invite(&self, node: &Node, kept: &Path) -> Result<String, LabError> {
        let invitation: Invitation = self.ask(&["node", "invite", node.name()])?;
        write_private(kept, invitation.token.as_bytes())?;
        Ok(invitation.token)
    }

    /// Waits until the control plane calls every node connected that has a network and is switched on.
    fn wait_connected(&self, progress: &Progress) -> Result<(), LabError> {
        let mut wanted = Vec::new();
        for node in self.lab.nodes() {
            if node.is_cut()? {
                progress.step(&format!("{0}: cut off, not waited for (mesh-lab heal {0})", node.name()));
            } else {
                wanted.push(node.name());
            }
        }
        progress.step(&format!("mesh: waiting for {} to be connected", wanted.join(", ")));
        wait_for("every node to be connected", CONNECT, || {
            let listed = self.nodes().map_err(|error| error.to_string())?;
            let state = |name: &str| {
                listed.iter().find(|node| node.name == name).map_or("unknown", |node| &node.state)
            };
            let missing: Vec<String> = wanted
                .iter()
                .filter(|name| state(name) != "connected")
                .map(|name| format!("{name} is {}", state(name)))
                .collect();
            if missing.is_empty() { Ok(()) } else { Err(missing.join(", ")) }
        })
    }
}

impl Node {
    /// Whether there is such a file in the node.
    pub fn has_file(&self, path: &str) -> Result<bool, LabError> {
        Ok(self.exec(["test", "-e", path])?.code == 0)
    }

    /// Whether a join or a bootstrap came to its end here: it writes the unit last, and one that did not can be repeated.
    fn is_linked(&self) -> Result<bool, LabError> {
        Ok(self.has_file(LINK)? && self.has_file(UNIT_FILE)?)
    }

    /// Starts a host that is there and does not run.
    fn ensure_host(&self, progress: &Progress) -> Result<bool, LabError> {
        if self.exec(["systemctl", "is-active", "--quiet", HOST_UNIT])?.code == 0 {
            return Ok(false);
        }
        progress.step(&format!("{}: starting its host", self.name()));
        self.run(["systemctl", "start", HOST_UNIT])?;
        Ok(true)
    }
}

fn built(dist: &Path, program: &str) -> Result<PathBuf, LabError> {
    let path = dist.join(program);
    if path.is_file() {
        std::fs::canonicalize(&path).map_err(LabError::file("find", &path))
    } else {
        Err(LabError::NotBuilt { path, next: "`cargo xtask build` builds it, --dist names another folder" })
    }
}

/// A program of `dist/` and the digest by which a node that has it is known.
struct Program {
    path: PathBuf,
    digest: Digest,
}

impl Program {
    fn read(path: PathBuf) -> Result<Self, LabError> {
        let mut reader = HashingReader::new(File::open(&path).map_err(LabError::file("read", &path))?);
        io::copy(&mut reader, &mut io::sink()).map_err(LabError::file("read", &path))?;
        Ok(Self { path, digest: reader.finish() })
    }

    /// Puts it on a node that does not have this very one, and restarts a host that ran another.
    fn put(&self, node: &Node, progress: &Progress) -> Result<bool, LabError> {
        let there = node.exec(["sha256sum", HOST])?;
        if there.code == 0 && there.stdout.starts_with(self.digest.hex()) {
            return Ok(false);
        }
        progress.step(&format!("{}: putting {} in place", node.name(), self.path.display()));
        node.put(&self.path, HOST)?;
        node.run(["chmod", "0755", HOST])?;
        if there.code == 0 && node.is_linked()? {
            progress.step(&format!("{}: restarting its host, which is another build now", node.name()));
            node.run(["systemctl", "restart", HOST_UNIT])?;
        }
        Ok(true)
    }
}

type Work<'scope> = ScopedJoinHandle<'scope, Result<bool, LabError>>;

/// Does the same on several nodes at once; each says whether it changed something.
fn at_once<'scope>(
    scope: &'scope Scope<'scope, '_>,
    nodes: &'scope [Node],
    work: impl Fn(&Node) -> Result<bool, LabError> + Copy + Send + 'scope,
) -> Vec<Work<'scope>> {
    nodes.iter().map(|node| scope.spawn(move || on_node(node, work(node)))).collect()
}

/// Waits for all of it; the first failure is the answer once everything has ended.
fn finished(works: Vec<Work<'_>>) -> Result<bool, LabError> {
    let results: Vec<Result<bool, LabError>> = works
        .into_iter()
        .map(|work| work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        .collect();
    results.into_iter().try_fold(false, |changed, result| Ok(changed | result?))
}

/// A node keeps the bundle it was raised with; when another has been built since, says so.
fn tell_of_another_bundle(lab: &Lab, dist: &Path, progress: &Progress) -> Result<(), LabError> {
    let (Some(node), Some(built)) = (lab.nodes().first(), read_if_there(&dist.join("bundle/bundle.toml"))?)
    else {
        return Ok(());
    };
    if node.exec(["cat", &format!("{BUNDLE}/bundle.toml")])?.stdout != built {
        progress.step(
            "bundle: another one was built since the nodes were raised; to use it take the lab down first",
        );
    }
    Ok(())
}

fn bootstrap(node: &Node, progress: &Progress) -> Result<bool, LabError> {
    if node.has_file(ADMIN_CONTEXT)? && node.is_linked()? {
        return node.ensure_host(progress);
    }
    progress.step(&format!("{}: bootstrap", node.name()));
    let address = format!("{}:{BROKER_PORT}", node.address());
    let command = [HOST, "bootstrap", "--bundle", BUNDLE, "--name", node.name(), "--advertise", &address];
    node.run_telling(command, BOOTSTRAP, &mut |line| progress.detail(line))?;
    Ok(true)
}

/// Says where to look when something failed on a node.
fn on_node<T>(node: &Node, result: Result<T, LabError>) -> Result<T, LabError> {
    result.map_err(|source| LabError::OnNode {
        node: node.name().to_owned(),
        source: Box::new(source),
        journal: node.journal().to_owned(),
        last: node.journal_lines(None, 20).unwrap_or_else(|error| format!("not to be had: {error}")),
    })
}
