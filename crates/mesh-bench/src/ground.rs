//! What is measured on: a node alone, or a mesh of two, raised when first needed and taken down at the end.
//!
//! One at a time, so that neither is measured while the other runs. It measures nothing itself, and touches no lab but
//! its own and nothing of this machine. Called by [`crate::measure`].

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use mesh_client::{Context, ContextStore};
use mesh_lab::raise::Mesh;
use mesh_lab::{Lab, LabName, Node, Options, Progress};
use serde_json::Value;

/// Where the host's program lies on a node.
pub(crate) const HOST: &str = "/usr/local/bin/mesh-host";
/// The node of the mesh on which modules are placed; the other one carries the substrate.
pub(crate) const WORKER: &str = "node-2";

/// The labs of this run.
pub(crate) struct Ground {
    dist: PathBuf,
    cache: PathBuf,
    progress: Progress,
    /// What could not be raised once is not tried again: it takes minutes to fail.
    up: Option<(Kind, Result<Raised, String>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Alone,
    Mesh,
}

/// A lab that is up.
pub(crate) struct Raised {
    lab: Lab,
    context: Option<Context>,
}

impl Raised {
    /// A node of it.
    pub(crate) fn node(&self, name: &str) -> anyhow::Result<&Node> {
        Ok(self.lab.node(name)?)
    }

    /// How to reach its control plane.
    pub(crate) fn context(&self) -> anyhow::Result<&Context> {
        self.context.as_ref().context("a node alone has no control plane")
    }
}

impl Ground {
    /// Nothing is raised yet. `dist`: where the programs, the bundle and the node images are.
    pub(crate) fn new(dist: &Path, cache: PathBuf, progress: Progress) -> Self {
        Self { dist: dist.to_owned(), cache, progress, up: None }
    }

    /// Where peers are kept between runs.
    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// Says what is going on.
    pub(crate) fn step(&self, text: &str) {
        self.progress.step(text);
    }

    /// A node that has joined no mesh, with the host's program on it.
    pub(crate) fn alone(&mut self) -> anyhow::Result<&Node> {
        self.raised(Kind::Alone)?.node("node-1")
    }

    /// A mesh of two nodes, both connected.
    pub(crate) fn mesh(&mut self) -> anyhow::Result<&Raised> {
        self.raised(Kind::Mesh)
    }

    fn raised(&mut self, wanted: Kind) -> anyhow::Result<&Raised> {
        if self.up.as_ref().is_none_or(|(kind, _)| *kind != wanted) {
            self.up = None;
            let raised = match wanted {
                Kind::Alone => self.raise_alone(),
                Kind::Mesh => self.raise_mesh(),
            };
            self.up = Some((wanted, raised.map_err(|error| format!("{error:#}"))));
        }
        match &self.up {
            Some((_, Ok(raised))) => Ok(raised),
            Some((_, Err(why))) => Err(anyhow!(why.clone())),
            None => Err(anyhow!("nothing is raised")),
        }
    }

    fn raise_alone(&self) -> anyhow::Result<Raised> {
        let program = self.dist.join("mesh-host");
        anyhow::ensure!(program.is_file(), "there is no {}: `make build` builds it", program.display());
        let options = Options::for_test(LabName::unique("bench-alone"), &self.dist, 1);
        let lab = Lab::up(&options, &self.progress)?;
        let node = lab.node("node-1")?;
        node.put(&program, HOST)?;
        node.run(["chmod", "0755", HOST])?;
        Ok(Raised { lab, context: None })
    }

    fn raise_mesh(&self) -> anyhow::Result<Raised> {
        let name = LabName::unique("bench");
        let options = Options { bundle: true, ..Options::for_test(name, &self.dist, 2) };
        let contexts = ContextStore::of_this_person();
        let current = contexts.current()?;
        let lab = Lab::up(&options, &self.progress)?;
        let raised = Mesh::raise(&lab, &self.dist, &self.progress).map(drop);
        // A lab that a person works with stays the one that `mesh` speaks to.
        if let Some(current) = current {
            contexts.choose(&current)?;
        }
        raised?;
        let context = contexts.load(Some(lab.name().as_str()))?;
        Ok(Raised { lab, context: Some(context) })
    }
}

/// Puts a folder of this machine into a new folder of the node, whole.
pub(crate) fn put_folder(node: &Node, folder: &Path, place: &str) -> anyhow::Result<()> {
    let mut archive = tar::Builder::new(tempfile::NamedTempFile::new()?);
    archive.append_dir_all(".", folder).with_context(|| format!("read {}", folder.display()))?;
    let packed = format!("{place}.tar");
    node.put(archive.into_inner()?.path(), &packed)?;
    let unpack = format!(
        "rm -rf {place} && mkdir -p {place} && tar -x -f {packed} -C {place} --no-same-owner && rm {packed}"
    );
    node.run(["sh", "-c", &unpack])?;
    Ok(())
}

/// Puts a text into a file of the node, for root only.
pub(crate) fn put_text(node: &Node, text: impl AsRef<[u8]>, path: &str) -> anyhow::Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), text)?;
    node.run(["sh", "-c", &format!("mkdir -p \"$(dirname {path})\"")])?;
    Ok(node.put(file.path(), path)?)
}

/// The same for JSON.
pub(crate) fn put_json(node: &Node, value: &Value, path: &str) -> anyhow::Result<()> {
    put_text(node, value.to_string(), path)
}
