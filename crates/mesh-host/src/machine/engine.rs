//! The container engine, by its API socket (Podman or Docker): what it has, and the acts on it.
//!
//! Never destroys data that a person did not release. Never takes what the mesh did not make: a container, a
//! network or a volume without the mesh's labels is somebody else's. [`socket`] is the real one, and the only place that
//! names bollard; [`fake`] is one in memory.

mod backoff;
#[cfg(test)]
#[expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test stops at the first surprise")]
mod contract;
mod draft;
pub mod fake;
mod health;
pub mod images;
pub mod replace;
pub mod socket;
mod step;
mod wait;

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use async_trait::async_trait;
pub use draft::{Draft, labels};
use mesh_ids::ImageRef;
use mesh_wire::kinds::{Health, Ready};
pub use replace::Back;
pub use step::{EngineStep, Execution};

use super::files::Content;
use crate::failure::Failure;

/// The label that carries the fingerprint of what a thing was made from. Whatever has it was made by a host.
pub const LABEL_SPEC: &str = "mesh.spec";
/// The label that says whose a thing is: `carried` or `assigned`. For people; the ledger decides.
pub const LABEL_ORIGIN: &str = "mesh.origin";
/// The label that names the resource a thing was made for. For people; the ledger decides.
pub const LABEL_RESOURCE: &str = "mesh.resource";
/// The label that says in which state a container found what it reads. Not of its fingerprint.
pub const LABEL_READS: &str = "mesh.reads";
/// The label that says of what kind of resource a thing is.
pub const LABEL_KIND: &str = "mesh.kind";

/// The container engine of the machine. Connects when it is first needed, because a resource may install it.
#[async_trait(?Send)]
pub trait Engine {
    /// Its name and version, e.g. `podman 4.3.1`; none where there is no engine.
    async fn version(&self) -> Option<String>;

    /// Called when a round begins: what was remembered of the engine's state is forgotten, unless the engine has told
    /// of every change since.
    fn new_round(&self);

    /// Waits until something the engine runs may have changed. Reconnects by itself, for ever.
    async fn changed(&self);

    /// Everything it has but for images. Asked once a round, however many resources there are.
    async fn look(&self) -> Result<Rc<Contents>, Failure>;

    /// Whether it has this image, by the digest of its manifest or of its config.
    async fn has_image(&self, image: &ImageRef) -> Result<bool, Failure>;

    /// Gets this image: from the bundle, otherwise from the registry in its name.
    async fn fetch_image(&self, image: &ImageRef) -> Result<(), Failure>;

    /// Removes an image; one that is not there, or that anything was made from, stays as it is.
    async fn remove_image(&self, image: &ImageRef) -> Result<(), Failure>;

    /// Makes a container, without starting it. Its image has to be there.
    async fn create_container(&self, draft: &Draft) -> Result<(), Failure>;

    /// Starts a container; one that runs is started.
    async fn start_container(&self, name: &str) -> Result<(), Failure>;

    /// How much longer a container that ended is to be left alone, because it ended soon after each of its last starts.
    /// [`Engine::changed`] wakes when that is over.
    fn wait_before_start(&self, name: &str) -> Option<Duration>;

    /// How long ago this program started a container last; none where it did not.
    fn since_start(&self, name: &str) -> Option<Duration>;

    /// Asks a container that runs whether it is ready. The failure is its answer, for a person.
    async fn ask(&self, name: &str, ready: &Ready, within: Duration) -> Result<(), Failure>;

    /// Has a container asked from now on for as long as it runs; none: it is not asked any more. [`Engine::changed`] asks,
    /// and wakes when its answers stay bad.
    fn watch(&self, name: &str, watch: Option<&Watch>);

    /// Its last answer, where so many in a row were bad that it is to be restarted.
    fn unwell(&self, name: &str) -> Option<Failure>;

    /// The last lines a container wrote: few and short. None where they cannot be read.
    async fn last_lines(&self, name: &str) -> Vec<String>;

    /// Stops a container by its signal, after `grace` by force; one that does not run is stopped.
    async fn stop_container(&self, name: &str, grace: Duration) -> Result<(), Failure>;

    /// Removes a container, running or not; one that is not there is removed. Its named volumes stay.
    async fn remove_container(&self, name: &str) -> Result<(), Failure>;

    /// Gives a container another name, which has to be free. It runs on.
    async fn rename_container(&self, name: &str, to: &str) -> Result<(), Failure>;

    /// How a container ended; none where it runs, or was not started yet. One that is not there is a failure.
    async fn ended(&self, name: &str) -> Result<Option<Ended>, Failure>;

    /// Runs something in a running container and waits for its end.
    async fn execute(&self, execution: &Execution) -> Result<Executed, Failure>;

    /// Runs something that only looks. What it said may be remembered for a few minutes, as long as the container runs
    /// on and nothing else was executed in it.
    async fn probe(&self, execution: &Execution) -> Result<Executed, Failure>;

    /// Makes a bridge network.
    async fn create_network(&self, network: &Network) -> Result<(), Failure>;

    /// Removes a network; one that is not there is removed, one with containers in it is refused.
    async fn remove_network(&self, name: &str) -> Result<(), Failure>;

    /// Makes a volume.
    async fn create_volume(&self, name: &str, labels: &BTreeMap<String, String>) -> Result<(), Failure>;

    /// Removes a volume and what is in it; one that is not there is removed, one that a container has is refused.
    async fn remove_volume(&self, name: &str) -> Result<(), Failure>;
}

/// What an engine has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// The containers by name.
    pub containers: BTreeMap<String, Container>,
    /// The networks by name.
    pub networks: BTreeMap<String, Network>,
    /// The volumes by name, each with its labels.
    pub volumes: BTreeMap<String, BTreeMap<String, String>>,
}

/// A container that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// What it does.
    pub state: State,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The networks it is in.
    pub networks: Vec<String>,
    /// When it was made, in seconds since 1970-01-01 UTC.
    pub created: i64,
}

impl Container {
    /// The fingerprint of what it was made from; none where no host made it.
    pub fn spec(&self) -> Option<&str> {
        self.labels.get(LABEL_SPEC).map(String::as_str)
    }

    /// In which state it found what it reads; empty where it reads nothing.
    pub fn reads(&self) -> &str {
        self.labels.get(LABEL_READS).map_or("", String::as_str)
    }
}

/// What a container does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Made and never started.
    Created,
    /// Runs.
    Running,
    /// Ran and ended.
    Exited,
    /// Anything else, by the engine's word: `paused`, `stopping`, `dead`.
    Other(String),
}

/// A network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// Its addresses; where none, the engine chose or chooses.
    pub subnet: Option<String>,
    /// Whether nothing in it reaches beyond the machine.
    pub internal: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// What a container that runs is asked, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// What.
    pub ready: Ready,
    /// How often, and how many bad answers are too many.
    pub health: Health,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code.
    pub code: i64,
    /// Whether the kernel ended it for want of memory.
    pub out_of_memory: bool,
    /// The last lines it wrote.
    pub last_lines: Vec<String>,
}

impl Ended {
    /// For a person. What it wrote is not among the words where its log is private.
    pub fn in_words(&self, private_log: bool) -> String {
        let mut words = format!("it ended with {}", self.code);
        if self.out_of_memory {
            words.push_str(" because it was out of memory");
        }
        match self.last_lines.as_slice() {
            [] => words.push_str(" and wrote nothing"),
            _ if private_log => words.push_str("; its log is private: the engine shows it on the machine"),
            lines => words.extend(["; its last lines: ", &lines.join(" | ")]),
        }
        words
    }
}

/// How something that was executed in a container ended.
#[derive(Clone, PartialEq, Eq)]
pub struct Executed {
    /// Its exit code.
    pub code: i64,
    /// What it wrote to its standard output. Not printed: it may be anything.
    pub output: Content,
    /// The end of what it wrote to its standard error.
    pub errors: String,
}

impl std::fmt::Debug for Executed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executed").field("code", &self.code).finish_non_exhaustive()
    }
}

impl Executed {
    /// Its output, if it ended with 0; otherwise what it complained of.
    pub fn succeeded(self) -> Result<String, Failure> {
        if self.code == 0 {
            return Ok(String::from_utf8_lossy(self.output.bytes()).into_owned());
        }
        let complaint = match self.errors.trim() {
            "" => String::from_utf8_lossy(self.output.bytes()).trim().to_owned(),
            errors => errors.to_owned(),
        };
        Err(Failure::new(match complaint.as_str() {
            "" => format!("it ended with {}", self.code),
            complaint => format!("it ended with {}: {complaint}", self.code),
        }))
    }
}

/// A machine without an engine.
#[derive(Debug, Clone, Copy)]
pub struct NoEngine;

impl NoEngine {
    fn refuse<T>() -> Result<T, Failure> {
        Err(Failure::new("this machine has no container engine"))
    }
}

#[async_trait(?Send)]
impl Engine for NoEngine {
    async fn version(&self) -> Option<String> {
        None
    }

    fn new_round(&self) {}

    async fn changed(&self) {
        std::future::pending::<()>().await;
    }

    async fn look(&self) -> Result<Rc<Contents>, Failure> {
        Self::refuse()
    }

    async fn has_image(&self, _: &ImageRef) -> Result<bool, Failure> {
        Self::refuse()
    }

    async fn fetch_image(&self, _: &ImageRef) -> Result<(), Failure> {
        Self::refuse()
    }

    async fn remove_image(&self, _: &ImageRef) -> Result<(), Failure> {
        Self::refuse()
    }

    async fn create_container(&self, _: &Draft) -> Result<(), Failure> {
        Self::refuse()
    }

    async fn start_container(&self, _: &str) -> Result<(), Failure> {
        Self::refuse()
    }

    fn wait_before_start(&self, _: &str) -> Option<Duration> {
        None
    }

    fn since_start(&self, _: &str) -> Option<Duration> {
        None
    }

    async fn ask(&self, _: &str, _: &Ready, _: Duration) -> Result<(), Failure> {
        Self::refuse()
    }

    fn watch(&self, _: &str, _: Option<&Watch>) {}

    fn unwell(&self, _: &str) -> Option<Failure> {
        None
    }

    async fn last_lines(&self, _: &str) -> Vec<String> {
        Vec::new()
    }

    async fn stop_container(&self, _: &str, _: Duration) -> Result<(), Failure> {
        Self::refuse()
    }

    async fn remove_container(&self, _: &str) -> Result<(), Failure> {
        Self::refuse()
    }

    async fn rename_container(&self, _: &str, _: &str) -> Result<(), Failure> {
        Self::refuse()
    }

    async fn ended(&self, _: &str) -> Result<Option<Ended>, Failure> {
        Self::refuse()
    }

    async fn execute(&self, _: &Execution) -> Result<Executed, Failure> {
        Self::refuse()
    }

    async fn probe(&self, _: &Execution) -> Result<Executed, Failure> {
        Self::refuse()
    }

    async fn create_network(&self, _: &Network) -> Result<(), Failure> {
        Self::refuse()
    }

    async fn remove_network(&self, _: &str) -> Result<(), Failure> {
        Self::refuse()
    }

    async fn create_volume(&self, _: &str, _: &BTreeMap<String, String>) -> Result<(), Failure> {
        Self::refuse()
    }

    async fn remove_volume(&self, _: &str) -> Result<(), Failure> {
        Self::refuse()
    }
}
