//! Acts on the engine, and waiting for what they bring about. Every wait has a deadline and names what it waited for.

use std::{collections::BTreeMap, fmt, time::Duration};

use mesh_ids::ImageRef;
use mesh_wire::kinds::Ready;

use super::{
    Back, Draft, Engine, LABEL_KIND, LABEL_ORIGIN, LABEL_RESOURCE, Network, State, replace,
    wait::{self, NotReady},
};
use crate::{
    failure::Failure,
    machine::{Machine, files::Content},
};

/// One act on the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineStep {
    /// Get an image.
    FetchImage(ImageRef),
    /// Remove an image, unless something was made from it.
    RemoveImage(ImageRef),
    /// Make a container.
    CreateContainer(Box<Draft>),
    /// Start a container.
    StartContainer(String),
    /// Wait until a container is ready.
    AwaitReady {
        /// The container.
        container: String,
        /// How it is known, and by when.
        ready: Ready,
        /// Whether what it writes is not to be told.
        private_log: bool,
    },
    /// Wait until a container ends, which it has to do with 0.
    AwaitEnd {
        /// The container.
        container: String,
        /// For how long at most, in seconds.
        within_s: u32,
        /// Whether what it writes is not to be told.
        private_log: bool,
    },
    /// Stop a container.
    StopContainer {
        /// The container.
        container: String,
        /// How long it has to end by itself, in seconds.
        grace_s: u32,
        /// What for: `to replace it, because …` or nothing.
        why: String,
        /// Whether that is because something it reads changed.
        restarts: bool,
    },
    /// Give the new container the name, and thereby the place, of the one it replaces.
    PutInPlace(String),
    /// Give the place back to the container that was to be replaced, and start it.
    PutBack {
        /// Which.
        back: Back,
        /// Whether that is because something it reads changed.
        restarts: bool,
    },
    /// Take a step, and go back to the container that was there if it fails.
    OrBack {
        /// The step.
        step: Box<EngineStep>,
        /// The way back.
        back: Back,
    },
    /// Remove a container.
    RemoveContainer(String),
    /// Make a network.
    CreateNetwork(Network),
    /// Remove a network.
    RemoveNetwork(String),
    /// Make a volume.
    CreateVolume {
        /// Its name.
        name: String,
        /// Its labels.
        labels: BTreeMap<String, String>,
    },
    /// Leave a volume as it is, though it is no longer declared.
    KeepVolume(String),
    /// Remove a volume whose data a person released.
    RemoveVolume(String),
    /// Run something in a container that changes what the container holds.
    Execute(Execution),
}

/// Something that is run in a container.
#[derive(Clone, PartialEq, Eq)]
pub struct Execution {
    /// The container.
    pub container: String,
    /// What it is for, as a person reads it in a plan: `create the database inventory`.
    pub what: String,
    /// The program and its arguments. Never with a secret: others can see them.
    pub command: Vec<String>,
    /// By which user of the container; the one it runs by where none is given.
    pub user: Option<String>,
    /// What it reads. Not printed: it may hold a secret.
    pub input: Content,
    /// How long it may take, in seconds.
    pub within_s: u32,
}

impl Execution {
    /// Runs these words with no input, by the container's own user.
    pub fn new(container: &str, what: impl Into<String>, command: &[&str]) -> Self {
        Self {
            container: container.to_owned(),
            what: what.into(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            user: None,
            input: Content::new(b""),
            within_s: 60,
        }
    }

    /// The same, by this user of the container.
    #[must_use]
    pub fn as_user(self, user: &str) -> Self {
        Self { user: Some(user.to_owned()), ..self }
    }

    /// The same, reading this.
    #[must_use]
    pub fn reading(self, input: &[u8]) -> Self {
        Self { input: Content::new(input), ..self }
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Execution({self})")
    }
}

impl fmt::Display for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (in the container {})", self.what, self.container)
    }
}

impl fmt::Display for EngineStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FetchImage(image) => write!(f, "get the image {image}"),
            Self::RemoveImage(image) => {
                write!(f, "remove the image {image}, unless something was made from it")
            }
            Self::CreateContainer(draft) => write!(f, "make the container {draft}"),
            Self::StartContainer(name) => write!(f, "start the container {name}"),
            Self::AwaitReady { container, ready, .. } => {
                let (question, within_s) = (ready.question(), ready.within_s);
                write!(f, "wait until the container {container} is ready ({question}, {within_s} s)")
            }
            Self::AwaitEnd { container, within_s, .. } => {
                write!(f, "wait until the container {container} has ended ({within_s} s)")
            }
            Self::StopContainer { container, why, .. } if why.is_empty() => {
                write!(f, "stop the container {container}")
            }
            Self::StopContainer { container, why, .. } => write!(f, "stop the container {container} {why}"),
            Self::PutInPlace(name) => {
                write!(
                    f,
                    "put the new container {name} in its place; the old one is kept until that is ready"
                )
            }
            Self::PutBack { back, .. } => {
                write!(f, "put the container {} that was to be replaced back", back.container)
            }
            Self::OrBack { step, .. } => step.fmt(f),
            Self::RemoveContainer(name) => write!(f, "remove the container {name}"),
            Self::CreateNetwork(Network { name, subnet, internal, .. }) => {
                let internal = internal.then_some("internal");
                match subnet.as_deref().into_iter().chain(internal).collect::<Vec<_>>().as_slice() {
                    [] => write!(f, "make the network {name}"),
                    words => write!(f, "make the network {name} ({})", words.join(", ")),
                }
            }
            Self::RemoveNetwork(name) => write!(f, "remove the network {name}"),
            Self::CreateVolume { name, .. } => write!(f, "make the volume {name}"),
            Self::KeepVolume(name) => write!(f, "keep the volume {name} and its data: it was not released"),
            Self::RemoveVolume(name) => {
                write!(f, "remove the volume {name} and its data, which was released")
            }
            Self::Execute(execution) => execution.fmt(f),
        }
    }
}

impl EngineStep {
    /// Does it.
    pub async fn apply(&self, machine: &Machine) -> Result<(), Failure> {
        let engine = machine.engine.as_ref();
        match self {
            Self::FetchImage(image) => engine.fetch_image(image).await,
            Self::RemoveImage(image) => engine.remove_image(image).await,
            Self::CreateContainer(draft) => create(engine, draft).await,
            Self::StartContainer(name) => engine.start_container(name).await,
            Self::AwaitReady { container, ready, private_log } => {
                let waited = wait::ready(engine, container, ready, *private_log).await;
                waited.map_err(NotReady::into_failure)
            }
            Self::AwaitEnd { container, within_s, private_log } => {
                wait::end(engine, container, *within_s, *private_log).await
            }
            Self::StopContainer { container, grace_s, .. } => {
                engine.stop_container(container, Duration::from_secs((*grace_s).into())).await
            }
            Self::PutInPlace(container) => replace::put_in_place(engine, container).await,
            Self::PutBack { back, .. } => replace::put_back(engine, back, false).await,
            Self::OrBack { step, back } => replace::or_back(machine, step, back).await,
            Self::RemoveContainer(name) => engine.remove_container(name).await,
            Self::CreateNetwork(network) => engine.create_network(network).await,
            Self::RemoveNetwork(name) => engine.remove_network(name).await,
            Self::CreateVolume { name, labels } => engine.create_volume(name, labels).await,
            Self::KeepVolume(_) => Ok(()),
            Self::RemoveVolume(name) => engine.remove_volume(name).await,
            Self::Execute(execution) => engine.execute(execution).await?.succeeded().map(|_| ()),
        }
    }

    /// Writes on what it makes whose it is and for which resource, for people who look at the engine.
    pub fn mark(&mut self, origin: &str, resource: &str) {
        let labels = match self {
            Self::CreateContainer(draft) => &mut draft.labels,
            Self::CreateNetwork(network) => &mut network.labels,
            Self::CreateVolume { labels, .. } => labels,
            _ => return,
        };
        for (label, value) in [(LABEL_ORIGIN, origin), (LABEL_RESOURCE, resource)] {
            labels.insert(label.to_owned(), value.to_owned());
        }
    }

    /// Whether it replaces a container because something it reads changed.
    pub fn restarts(&self) -> bool {
        match self {
            Self::StopContainer { restarts, .. } | Self::PutBack { restarts, .. } => *restarts,
            Self::OrBack { step, .. } => step.restarts(),
            _ => false,
        }
    }
}

/// An engine makes a volume that is missing by itself, and data would go where nobody looks for it.
async fn create(engine: &dyn Engine, draft: &Draft) -> Result<(), Failure> {
    let contents = engine.look().await?;
    for mount in draft.spec.mounts.iter().filter(|mount| !mount.source.starts_with('/')) {
        match contents.volumes.get(&mount.source) {
            None => {
                return Err(Failure::new(format!(
                    "there is no volume {0}: declare volume:{0} and name it in `after`",
                    mount.source
                )));
            }
            Some(labels) if !labels.contains_key(LABEL_KIND) => {
                return Err(Failure::new(format!("the volume {} is not the mesh's", mount.source)));
            }
            Some(_) => {}
        }
    }
    if let Some(network) = draft.spec.networks.iter().find(|name| !contents.networks.contains_key(*name)) {
        return Err(Failure::new(format!(
            "there is no network {network}: declare network:{network} and name it in `after`"
        )));
    }
    engine.create_container(draft).await
}

impl State {
    /// The state's word, for people.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Other(word) => word,
        }
    }
}
