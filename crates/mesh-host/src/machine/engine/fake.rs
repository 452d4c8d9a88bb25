//! An engine in memory, for tests. As strict as a real one where the host could go wrong: a container needs its image, a
//! start its container, a name is taken once, a network with containers in it stays. Never used by a program.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    rc::Rc,
    time::Duration,
};

use async_trait::async_trait;
use mesh_ids::ImageRef;
use mesh_wire::kinds::Ready;

use super::{
    Container, Contents, Draft, Ended, Engine, Executed, Execution, LABEL_READS, Network, State, Watch,
};
use crate::{
    failure::Failure,
    machine::{fake::Faults, files::Content},
};

/// What is run in a container, and what comes of it.
pub type Program = Box<dyn Fn(&Execution) -> Executed>;

/// The engine in memory.
pub struct FakeEngine {
    faults: Rc<Faults>,
    containers: RefCell<BTreeMap<String, FakeContainer>>,
    networks: RefCell<BTreeMap<String, Network>>,
    volumes: RefCell<BTreeMap<String, BTreeMap<String, String>>>,
    images: RefCell<Vec<ImageRef>>,
    /// The images that can be fetched; any where there are none.
    pub available: RefCell<Vec<ImageRef>>,
    /// What is run in containers; where nothing is given everything succeeds silently.
    pub program: RefCell<Option<Program>>,
    /// The images whose containers never become ready.
    pub unready: RefCell<Vec<ImageRef>>,
    /// The containers whose answers became bad while they ran, and the last answer. A stop ends that.
    pub unwell: RefCell<BTreeMap<String, String>>,
    /// What is asked of containers while they run.
    pub watched: RefCell<BTreeMap<String, Watch>>,
    /// The clock, in seconds since 1970-01-01 UTC.
    pub now: Cell<i64>,
    /// The ports of the machine that something else has.
    pub taken_ports: RefCell<Vec<u16>>,
    /// With what containers end that run to their end.
    pub ends_with: RefCell<BTreeMap<String, i64>>,
    /// How often each container was made, and how often started.
    pub made: RefCell<BTreeMap<String, (u32, u32)>>,
}

struct FakeContainer {
    created: i64,
    draft: Draft,
    state: State,
    code: i64,
}

impl fmt::Debug for FakeEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.picture())
    }
}

impl FakeEngine {
    /// An engine that has nothing, on a machine with these faults.
    pub fn new(faults: &Rc<Faults>) -> Rc<Self> {
        Rc::new(Self {
            faults: Rc::clone(faults),
            containers: RefCell::default(),
            networks: RefCell::default(),
            volumes: RefCell::default(),
            images: RefCell::default(),
            available: RefCell::default(),
            program: RefCell::default(),
            unready: RefCell::default(),
            unwell: RefCell::default(),
            watched: RefCell::default(),
            now: Cell::default(),
            taken_ports: RefCell::default(),
            ends_with: RefCell::default(),
            made: RefCell::default(),
        })
    }

    /// Everything that removal gives back. Not the images, which cost nothing but space, and not the volumes, which are
    /// kept on purpose.
    pub fn picture(&self) -> String {
        let containers = self.containers.borrow();
        let containers: BTreeMap<_, _> = containers
            .iter()
            .map(|(name, it)| (name, (Self::lasting(&it.draft.labels), &it.state)))
            .collect();
        format!("{containers:#?}\n{:#?}\n{:?}", self.networks.borrow(), self.unwell.borrow())
    }

    /// The labels without the one that counts changes: those of a host that was killed are others.
    fn lasting(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut labels = labels.clone();
        labels.remove(LABEL_READS);
        labels
    }

    /// The containers, each with its image and whether it runs.
    pub fn running(&self) -> BTreeMap<String, (String, bool)> {
        let containers = self.containers.borrow();
        let seen = |it: &FakeContainer| (it.draft.spec.image.to_string(), it.state == State::Running);
        containers.iter().map(|(name, it)| (name.clone(), seen(it))).collect()
    }

    /// A person removes this network.
    pub fn take_network(&self, name: &str) {
        self.networks.borrow_mut().remove(name);
    }

    /// The images.
    pub fn images(&self) -> Vec<String> {
        self.images.borrow().iter().map(ToString::to_string).collect()
    }

    /// A person loads this image.
    pub fn load(&self, image: &ImageRef) {
        self.images.borrow_mut().push(image.clone());
    }

    /// A person removes every image.
    pub fn take_images(&self) {
        self.images.borrow_mut().clear();
    }

    /// The volumes.
    pub fn volumes(&self) -> Vec<String> {
        self.volumes.borrow().keys().cloned().collect()
    }

    /// A person ends this container.
    pub fn end(&self, name: &str) {
        if let Some(container) = self.containers.borrow_mut().get_mut(name) {
            container.state = State::Exited;
            container.code = 137;
        }
    }

    /// A person removes this container.
    pub fn take(&self, name: &str) {
        self.containers.borrow_mut().remove(name);
    }

    fn to_container(found: &FakeContainer) -> Container {
        Container {
            state: found.state.clone(),
            labels: found.draft.labels.clone(),
            networks: found.draft.spec.networks.clone(),
            created: found.created,
        }
    }

    fn run(&self, execution: &Execution) -> Result<Executed, Failure> {
        match self.containers.borrow().get(&execution.container).map(|found| &found.state) {
            Some(State::Running) => {}
            _ => return Err(Failure::new(format!("{} does not run", execution.container))),
        }
        let silent = || Executed { code: 0, output: Content::new(b""), errors: String::new() };
        Ok(self.program.borrow().as_ref().map_or_else(silent, |program| program(execution)))
    }
}

#[async_trait(?Send)]
impl Engine for FakeEngine {
    async fn version(&self) -> Option<String> {
        Some("podman 0.0.0".to_owned())
    }

    fn new_round(&self) {}

    async fn changed(&self) {
        std::future::pending::<()>().await;
    }

    async fn look(&self) -> Result<Rc<Contents>, Failure> {
        self.faults.operation("look at the engine", || {
            let containers = self.containers.borrow();
            Ok(Rc::new(Contents {
                containers: containers
                    .iter()
                    .map(|(name, found)| (name.clone(), Self::to_container(found)))
                    .collect(),
                networks: self.networks.borrow().clone(),
                volumes: self.volumes.borrow().clone(),
            }))
        })
    }

    async fn has_image(&self, image: &ImageRef) -> Result<bool, Failure> {
        self.faults.operation("look at the images", || Ok(self.images.borrow().contains(image)))
    }

    async fn fetch_image(&self, image: &ImageRef) -> Result<(), Failure> {
        self.faults.operation("fetch an image", || {
            let available = self.available.borrow();
            if !available.is_empty() && !available.contains(image) {
                return Err(Failure::new("it is nowhere"));
            }
            if !self.images.borrow().contains(image) {
                self.images.borrow_mut().push(image.clone());
            }
            Ok(())
        })
    }

    async fn remove_image(&self, image: &ImageRef) -> Result<(), Failure> {
        self.faults.operation("remove an image", || {
            if !self.containers.borrow().values().any(|it| it.draft.spec.image == *image) {
                self.images.borrow_mut().retain(|known| known != image);
            }
            Ok(())
        })
    }

    async fn create_container(&self, draft: &Draft) -> Result<(), Failure> {
        self.faults.operation("make a container", || {
            if !self.images.borrow().contains(&draft.spec.image) {
                return Err(Failure::new(format!("there is no image {}", draft.spec.image)));
            }
            if self.containers.borrow().contains_key(&draft.name) {
                return Err(Failure::new(format!("there is a container {}", draft.name)));
            }
            self.made.borrow_mut().entry(draft.name.clone()).or_default().0 += 1;
            let made = FakeContainer {
                draft: draft.clone(),
                state: State::Created,
                code: 0,
                created: self.now.get(),
            };
            self.containers.borrow_mut().insert(draft.name.clone(), made);
            Ok(())
        })
    }

    async fn start_container(&self, name: &str) -> Result<(), Failure> {
        self.faults.operation("start a container", || {
            let mut containers = self.containers.borrow_mut();
            let ports = |it: &FakeContainer| it.draft.spec.ports.iter().map(|p| p.host).collect::<Vec<_>>();
            let others = containers.iter().filter(|(other, it)| *other != name && it.state == State::Running);
            let mut bound: Vec<u16> = others.flat_map(|(_, it)| ports(it)).collect();
            bound.extend(self.taken_ports.borrow().iter());
            let none = || Failure::new(format!("there is no container {name}"));
            let container = containers.get_mut(name).ok_or_else(none)?;
            if container.state == State::Running {
                return Ok(());
            }
            if let Some(port) = ports(container).iter().find(|port| bound.contains(port)) {
                return Err(Failure::new(format!("the port {port} is in use")));
            }
            self.made.borrow_mut().entry(name.to_owned()).or_default().1 += 1;
            match self.ends_with.borrow().get(name) {
                Some(code) => (container.state, container.code) = (State::Exited, *code),
                None => container.state = State::Running,
            }
            Ok(())
        })
    }

    fn wait_before_start(&self, _: &str) -> Option<Duration> {
        None
    }

    fn since_start(&self, _: &str) -> Option<Duration> {
        None
    }

    async fn ask(&self, name: &str, ready: &Ready, _: Duration) -> Result<(), Failure> {
        self.faults.operation("ask a container", || {
            let words: Vec<&str> = ready.command.iter().map(String::as_str).collect();
            self.run(&Execution::new(name, "ask whether it is ready", &words))?.succeeded()?;
            let containers = self.containers.borrow();
            match containers.get(name) {
                Some(found) if self.unready.borrow().contains(&found.draft.spec.image) => {
                    Err(Failure::new("it answers 503"))
                }
                _ => Ok(()),
            }
        })
    }

    fn watch(&self, name: &str, watch: Option<&Watch>) {
        let mut watched = self.watched.borrow_mut();
        match watch {
            Some(watch) => watched.insert(name.to_owned(), watch.clone()),
            None => watched.remove(name),
        };
    }

    fn unwell(&self, name: &str) -> Option<Failure> {
        self.unwell.borrow().get(name).map(|answer| Failure::new(answer.clone()))
    }

    async fn last_lines(&self, name: &str) -> Vec<String> {
        vec![format!("{name} says something")]
    }

    async fn stop_container(&self, name: &str, _: Duration) -> Result<(), Failure> {
        self.faults.operation("stop a container", || {
            self.unwell.borrow_mut().remove(name);
            if let Some(container) = self.containers.borrow_mut().get_mut(name)
                && container.state == State::Running
            {
                container.state = State::Exited;
            }
            Ok(())
        })
    }

    async fn remove_container(&self, name: &str) -> Result<(), Failure> {
        self.faults.operation("remove a container", || {
            self.containers.borrow_mut().remove(name);
            Ok(())
        })
    }

    async fn rename_container(&self, name: &str, to: &str) -> Result<(), Failure> {
        self.faults.operation("rename a container", || {
            let mut containers = self.containers.borrow_mut();
            if containers.contains_key(to) {
                return Err(Failure::new(format!("there is a container {to}")));
            }
            let none = || Failure::new(format!("there is no container {name}"));
            let mut container = containers.remove(name).ok_or_else(none)?;
            to.clone_into(&mut container.draft.name);
            containers.insert(to.to_owned(), container);
            Ok(())
        })
    }

    async fn ended(&self, name: &str) -> Result<Option<Ended>, Failure> {
        self.faults.operation("look at a container", || {
            let containers = self.containers.borrow();
            let none = || Failure::new(format!("there is no container {name}"));
            let found = containers.get(name).ok_or_else(none)?;
            Ok((found.state == State::Exited).then(|| Ended {
                code: found.code,
                out_of_memory: false,
                last_lines: Vec::new(),
            }))
        })
    }

    async fn execute(&self, execution: &Execution) -> Result<Executed, Failure> {
        self.faults.operation("execute", || self.run(execution))
    }

    async fn probe(&self, execution: &Execution) -> Result<Executed, Failure> {
        self.faults.operation("probe", || self.run(execution))
    }

    async fn create_network(&self, network: &Network) -> Result<(), Failure> {
        self.faults.operation("make a network", || {
            if self.networks.borrow().contains_key(&network.name) {
                return Err(Failure::new(format!("there is a network {}", network.name)));
            }
            self.networks.borrow_mut().insert(network.name.clone(), network.clone());
            Ok(())
        })
    }

    async fn remove_network(&self, name: &str) -> Result<(), Failure> {
        self.faults.operation("remove a network", || {
            let in_it =
                |found: &FakeContainer| found.draft.spec.networks.iter().any(|network| network == name);
            if self.containers.borrow().values().any(in_it) {
                return Err(Failure::new("the network is being used"));
            }
            self.networks.borrow_mut().remove(name);
            Ok(())
        })
    }

    async fn create_volume(&self, name: &str, labels: &BTreeMap<String, String>) -> Result<(), Failure> {
        self.faults.operation("make a volume", || {
            self.volumes.borrow_mut().entry(name.to_owned()).or_insert_with(|| labels.clone());
            Ok(())
        })
    }

    async fn remove_volume(&self, name: &str) -> Result<(), Failure> {
        self.faults.operation("remove a volume", || {
            let has_it = |found: &FakeContainer| found.draft.spec.mounts.iter().any(|it| it.source == name);
            if self.containers.borrow().values().any(has_it) {
                return Err(Failure::new("the volume is being used"));
            }
            self.volumes.borrow_mut().remove(name);
            Ok(())
        })
    }
}
