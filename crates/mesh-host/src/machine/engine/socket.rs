//! The engine behind its API socket: Podman's where there is one, otherwise Docker's.
//!
//! Asks for the lists of everything once a round, and not even that while the engine's own events say that nothing
//! happened. Connects when it is first needed and again after every break. The only place that names bollard.

mod ask;
mod convert;
mod deadline;
mod execute;
mod probe;
mod watch;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    path::PathBuf,
    rc::Rc,
    time::Duration,
};

use async_trait::async_trait;
use bollard::{
    API_DEFAULT_VERSION, Docker,
    errors::Error,
    query_parameters::{
        CreateContainerOptionsBuilder, CreateImageOptionsBuilder, ImportImageOptions, ListImagesOptions,
        ListNetworksOptions, ListVolumesOptions, LogsOptionsBuilder, RemoveContainerOptionsBuilder,
        RemoveImageOptions, RemoveVolumeOptions, RenameContainerOptionsBuilder, StartContainerOptions,
        StopContainerOptionsBuilder,
    },
};
use futures_util::stream::poll_fn;
use mesh_ids::ImageRef;
use mesh_wire::kinds::Ready;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use self::{
    convert::words,
    deadline::{SILENCE, SILENCE_OF_IMAGES, answer},
};
use super::{
    Contents, Draft, Ended, Engine, Executed, Execution, Network, State, Watch,
    backoff::Backoff,
    health::Health,
    images::{self, ImageStore},
};
use crate::{
    failure::Failure,
    machine::units::{Load, Units},
};

/// How long the engine may take to answer something that takes no time.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);
/// How long it may take to load or pull an image.
const FETCH_WITHIN: Duration = Duration::from_mins(30);
/// How long the lists are believed without an event. Events can be lost.
const BELIEVE_FOR: Duration = Duration::from_mins(1);
/// How much of a container's log is read to quote its last lines.
const MOST_LOG: usize = 256 << 10;
/// How many of a container's last lines are quoted.
const LAST_LINES: &str = "8";

/// Where the engine may listen, the likeliest first.
pub const SOCKETS: [&str; 2] = ["/run/podman/podman.sock", "/var/run/docker.sock"];

/// The engine of this machine.
pub struct EngineSocket {
    sockets: Vec<PathBuf>,
    /// To start the engine's socket where the machine has its unit.
    units: Option<Rc<dyn Units>>,
    images: ImageStore,
    connection: RefCell<Option<Connection>>,
    known: RefCell<Option<(Instant, Rc<Contents>)>>,
    events: watch::Events,
    probed: RefCell<BTreeMap<String, Vec<execute::Probed>>>,
    backoff: RefCell<Backoff>,
    health: RefCell<Health>,
    /// Told when something else is to be asked.
    health_changed: Notify,
    began: Instant,
    /// When a container that was not started yet may be started.
    held: Cell<Option<Instant>>,
}

#[derive(Clone)]
struct Connection {
    docker: Docker,
    socket: String,
    version: String,
}

impl EngineSocket {
    /// The engine that listens on the first of these sockets that exists; the machine's `podman.socket` is started
    /// where none does.
    pub fn new(sockets: Vec<PathBuf>, units: Option<Rc<dyn Units>>, images: ImageStore) -> Self {
        Self {
            sockets,
            units,
            images,
            connection: RefCell::default(),
            known: RefCell::default(),
            events: watch::Events::default(),
            probed: RefCell::default(),
            backoff: RefCell::default(),
            health: RefCell::default(),
            health_changed: Notify::new(),
            began: Instant::now(),
            held: Cell::default(),
        }
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        if let Some(connection) = self.connection.borrow().as_ref() {
            return Ok(connection.clone());
        }
        let socket = self.socket().await?;
        let what = format!("connect to {socket}");
        let docker = Docker::connect_with_unix(&socket, ANSWER_WITHIN.as_secs(), API_DEFAULT_VERSION)
            .map_err(|error| words(error).during(&what))?;
        let told = |why: Failure| why.during(&what);
        let docker =
            answer("agree on a version", ANSWER_WITHIN, docker.negotiate_version()).await.map_err(told)?;
        let version = answer("ask for its version", ANSWER_WITHIN, docker.version()).await.map_err(told)?;
        let version = convert::version(version);
        tracing::debug!(%socket, version, "connected to the container engine");
        let connection = Connection { docker, socket, version };
        *self.connection.borrow_mut() = Some(connection.clone());
        Ok(connection)
    }

    async fn socket(&self) -> Result<String, Failure> {
        let there = || self.sockets.iter().find(|path| path.exists());
        if there().is_none()
            && let Some(units) = &self.units
            && units.look("podman.socket").await.is_ok_and(|unit| unit.load == Load::Loaded)
        {
            units.start("podman.socket").await?;
        }
        there().map(|path| path.display().to_string()).ok_or_else(|| {
            let looked: Vec<String> = self.sockets.iter().map(|path| path.display().to_string()).collect();
            Failure::new(format!(
                "this machine has no container engine: nothing listens on {}; install podman and start podman.socket",
                looked.join(" or ")
            ))
        })
    }

    async fn docker(&self) -> Result<Docker, Failure> {
        Ok(self.connect().await?.docker)
    }

    /// Forgets what is known of the engine's state: something was, or may have been, done to it.
    fn forget(&self) {
        *self.known.borrow_mut() = None;
    }

    /// The engine after something is done to it, for which it may take as long as this.
    async fn acting(&self, within: Duration) -> Result<Docker, Failure> {
        self.forget();
        Ok(self.docker().await?.with_timeout(within))
    }

    async fn lines_of(&self, docker: &Docker, name: &str) -> Vec<String> {
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).tail(LAST_LINES).build();
        let mut lines: Vec<String> = Vec::new();
        let mut output = docker.logs(name, Some(options));
        let mut bytes = 0;
        // A container whose log cannot be read, or not in time, has still ended.
        while bytes < MOST_LOG
            && let Ok(Some(Ok(chunk))) = deadline::next("read the log", SILENCE, &mut output).await
        {
            let chunk = chunk.into_bytes();
            bytes += chunk.len();
            let text = String::from_utf8_lossy(&chunk).into_owned();
            lines.extend(text.lines().filter(|line| !line.trim().is_empty()).map(convert::shorten));
        }
        let surplus = lines.len().saturating_sub(8);
        lines.split_off(surplus)
    }

    async fn import(&self, image: &ImageRef) -> Result<bool, Failure> {
        let Some((layout, found)) = self.images.find(image.digest())? else { return Ok(false) };
        let docker = self.acting(FETCH_WITHIN).await?;
        let mut blocks = images::archive(layout, found, image);
        let blocks = poll_fn(move |context| blocks.poll_recv(context));
        let answer = docker.import_image_stream(ImportImageOptions::default(), blocks, None);
        // It begins once the engine has read the whole image.
        deadline::end(format!("load the image {image}"), FETCH_WITHIN, SILENCE_OF_IMAGES, answer).await?;
        Ok(true)
    }

    async fn pull(&self, image: &ImageRef) -> Result<(), Failure> {
        let options = CreateImageOptionsBuilder::new().from_image(&image.to_string()).build();
        let docker = self.acting(FETCH_WITHIN).await?;
        let answer = docker.create_image(Some(options), None, None);
        deadline::end(format!("pull the image {image}"), SILENCE_OF_IMAGES, SILENCE_OF_IMAGES, answer).await
    }

    /// The engine's own id of an image.
    async fn image_id(&self, image: &ImageRef) -> Result<Option<String>, Failure> {
        let docker = self.docker().await?;
        // Never with `digests`: Podman 4.3 answers that with nothing at all, and gives the digests without it.
        let images =
            answer("list the images", ANSWER_WITHIN, docker.list_images(None::<ListImagesOptions>)).await?;
        let suffix = format!("@{}", image.digest());
        let has = |digest: &mesh_ids::Digest| {
            images.iter().find(|found| {
                found.id == digest.as_str() || found.repo_digests.iter().any(|known| known.ends_with(&suffix))
            })
        };
        if let Some(found) = has(image.digest()) {
            return Ok(Some(found.id.clone()));
        }
        // Classic Docker keeps the digest of the config only.
        let config = self.images.find(image.digest())?.map(|(_, image)| image.config().clone());
        Ok(config.and_then(|config| has(&config).map(|found| found.id.clone())))
    }
}

#[async_trait(?Send)]
impl Engine for EngineSocket {
    async fn version(&self) -> Option<String> {
        Some(self.connect().await.ok()?.version)
    }

    fn new_round(&self) {
        let mut known = self.known.borrow_mut();
        if !self.events.is_open() || known.as_ref().is_some_and(|(at, _)| at.elapsed() > BELIEVE_FOR) {
            *known = None;
        }
    }

    async fn changed(&self) {
        self.wait_for_change().await;
    }

    async fn look(&self) -> Result<Rc<Contents>, Failure> {
        if let Some((_, contents)) = self.known.borrow().as_ref() {
            return Ok(Rc::clone(contents));
        }
        let connection = self.connect().await?;
        let docker = &connection.docker;
        let containers = connection.list().await?;
        let networks =
            answer("list the networks", ANSWER_WITHIN, docker.list_networks(None::<ListNetworksOptions>))
                .await?;
        let volumes =
            answer("list the volumes", ANSWER_WITHIN, docker.list_volumes(None::<ListVolumesOptions>))
                .await?;
        let contents = Rc::new(Contents {
            containers: containers.into_iter().filter_map(convert::container).collect(),
            networks: networks.into_iter().filter_map(convert::network).collect(),
            volumes: volumes
                .volumes
                .unwrap_or_default()
                .into_iter()
                .map(|volume| (volume.name, volume.labels.into_iter().collect()))
                .collect(),
        });
        *self.known.borrow_mut() = Some((Instant::now(), Rc::clone(&contents)));
        Ok(contents)
    }

    async fn has_image(&self, image: &ImageRef) -> Result<bool, Failure> {
        Ok(self.image_id(image).await?.is_some())
    }

    async fn fetch_image(&self, image: &ImageRef) -> Result<(), Failure> {
        if self.image_id(image).await?.is_some() {
            return Ok(());
        }
        if !self.import(image).await? {
            if !convert::names_registry(image.name()) {
                return Err(Failure::new(format!(
                    "it is not in the bundle of this machine, and {} names no registry to get it from",
                    image.name()
                )));
            }
            self.pull(image).await?;
        }
        match self.image_id(image).await? {
            Some(_) => Ok(()),
            None => Err(Failure::new("the engine took it, but does not list it by its digest")),
        }
    }

    async fn remove_image(&self, image: &ImageRef) -> Result<(), Failure> {
        let Some(id) = self.image_id(image).await? else { return Ok(()) };
        let docker = self.acting(ANSWER_WITHIN).await?;
        // Without force: an image that something was made from, or that a person gave a name of his own, is refused.
        let removed = docker.remove_image(&id, None::<RemoveImageOptions>, None);
        match timeout(ANSWER_WITHIN, removed).await {
            Ok(Err(Error::DockerResponseServerError { status_code: 409, message })) => {
                tracing::info!(%image, why = message, "the image stays");
                Ok(())
            }
            Ok(Err(Error::DockerResponseServerError { status_code: 404, .. }) | Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(words(error)),
            Err(_) => Err(Failure::new(format!("the engine did not remove it within {ANSWER_WITHIN:?}"))),
        }
    }

    async fn create_container(&self, draft: &Draft) -> Result<(), Failure> {
        let Some(id) = self.image_id(&draft.spec.image).await? else {
            return Err(Failure::new(format!("the engine has no image {}", draft.spec.image)));
        };
        let docker = self.acting(ANSWER_WITHIN).await?;
        let options = CreateContainerOptionsBuilder::new().name(&draft.name).build();
        answer(
            "create the container",
            ANSWER_WITHIN,
            docker.create_container(Some(options), convert::create_body(draft, id)),
        )
        .await?;
        // Engines before Docker 25 take only one network when a container is made.
        for network in draft.spec.networks.iter().skip(1) {
            let request = convert::connect(draft);
            answer("connect the network", ANSWER_WITHIN, docker.connect_network(network, request)).await?;
        }
        Ok(())
    }

    async fn start_container(&self, name: &str) -> Result<(), Failure> {
        let docker = self.acting(ANSWER_WITHIN).await?;
        self.backoff.borrow_mut().started(name, self.began.elapsed());
        answer(
            "start the container",
            ANSWER_WITHIN,
            docker.start_container(name, None::<StartContainerOptions>),
        )
        .await
    }

    fn wait_before_start(&self, name: &str) -> Option<Duration> {
        let wait = self.backoff.borrow().wait(name, self.began.elapsed())?;
        let until = Instant::now() + wait;
        self.held.set(Some(self.held.get().map_or(until, |held| held.min(until))));
        Some(wait)
    }

    fn since_start(&self, name: &str) -> Option<Duration> {
        self.backoff.borrow().since_start(name, self.began.elapsed())
    }

    async fn ask(&self, name: &str, ready: &Ready, within: Duration) -> Result<(), Failure> {
        self.ask_it(name, ready, within).await
    }

    fn watch(&self, name: &str, watch: Option<&Watch>) {
        self.health.borrow_mut().watch(name, watch, self.began.elapsed());
        self.health_changed.notify_one();
    }

    fn unwell(&self, name: &str) -> Option<Failure> {
        self.health.borrow().unwell(name)
    }

    async fn last_lines(&self, name: &str) -> Vec<String> {
        match self.docker().await {
            Ok(docker) => self.lines_of(&docker, name).await,
            Err(_) => Vec::new(),
        }
    }

    async fn stop_container(&self, name: &str, grace: Duration) -> Result<(), Failure> {
        let options = StopContainerOptionsBuilder::new();
        let options = options.t(i32::try_from(grace.as_secs()).unwrap_or(i32::MAX)).build();
        self.backoff.borrow_mut().forget(name);
        self.health.borrow_mut().forget(name);
        let docker = self.acting(grace + ANSWER_WITHIN).await?;
        deadline::gone_is_done(
            "stop the container",
            grace + ANSWER_WITHIN,
            docker.stop_container(name, Some(options)),
        )
        .await
    }

    async fn remove_container(&self, name: &str) -> Result<(), Failure> {
        let docker = self.acting(ANSWER_WITHIN).await?;
        // Without `v`: volumes without a name would go too, and nothing here may remove data.
        let options = RemoveContainerOptionsBuilder::new().force(true).build();
        deadline::gone_is_done(
            "remove the container",
            ANSWER_WITHIN,
            docker.remove_container(name, Some(options)),
        )
        .await
    }

    async fn rename_container(&self, name: &str, to: &str) -> Result<(), Failure> {
        let docker = self.acting(ANSWER_WITHIN).await?;
        for name in [name, to] {
            self.probed.borrow_mut().remove(name);
            self.health.borrow_mut().forget(name);
            self.backoff.borrow_mut().forget(name);
        }
        let options = RenameContainerOptionsBuilder::new().name(to).build();
        answer("rename the container", ANSWER_WITHIN, docker.rename_container(name, options)).await
    }

    async fn ended(&self, name: &str) -> Result<Option<Ended>, Failure> {
        let connection = self.connect().await?;
        let found = connection.inspect(name).await?.state;
        if convert::state(&found.status) != State::Exited {
            return Ok(None);
        }
        Ok(Some(Ended {
            code: found.exit_code,
            out_of_memory: found.oom_killed,
            last_lines: self.lines_of(&connection.docker, name).await,
        }))
    }

    async fn execute(&self, execution: &Execution) -> Result<Executed, Failure> {
        self.probed.borrow_mut().remove(&execution.container);
        execute::execute(&self.docker().await?, execution).await
    }

    async fn probe(&self, execution: &Execution) -> Result<Executed, Failure> {
        self.remembered_probe(execution).await
    }

    async fn create_network(&self, network: &Network) -> Result<(), Failure> {
        let docker = self.acting(ANSWER_WITHIN).await?;
        answer("create the network", ANSWER_WITHIN, docker.create_network(convert::network_request(network)))
            .await
            .map(|_| ())
    }

    async fn remove_network(&self, name: &str) -> Result<(), Failure> {
        let docker = self.acting(ANSWER_WITHIN).await?;
        deadline::gone_is_done("remove the network", ANSWER_WITHIN, docker.remove_network(name)).await
    }

    async fn create_volume(&self, name: &str, labels: &BTreeMap<String, String>) -> Result<(), Failure> {
        let docker = self.acting(ANSWER_WITHIN).await?;
        answer(
            "create the volume",
            ANSWER_WITHIN,
            docker.create_volume(convert::volume_request(name, labels)),
        )
        .await
        .map(|_| ())
    }

    async fn remove_volume(&self, name: &str) -> Result<(), Failure> {
        let docker = self.acting(ANSWER_WITHIN).await?;
        let removed = docker.remove_volume(name, None::<RemoveVolumeOptions>);
        deadline::gone_is_done("remove the volume", ANSWER_WITHIN, removed).await
    }
}
