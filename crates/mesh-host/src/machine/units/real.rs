//! The machine's systemd, over D-Bus.
//!
//! Speaks to systemd's own socket, as systemctl does: a bare machine has no message bus. Where that socket is missing
//! the system bus is tried. A connection that broke is made anew with the next question.

use std::{cell::RefCell, collections::BTreeSet, num::NonZeroUsize, rc::Rc, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};
use zbus::{
    Connection, DynamicType, MatchRule, Message, MessageStream, OwnedObjectPath, OwnedVariant, Type,
    connection::Builder, message,
};

use super::{
    Active, Load, UnitFound, Units, direct,
    status::{READY, ServiceStatus, Status, Verdict},
    watch::Watch,
};
use crate::failure::{During as _, Failure};

const DESTINATION: &str = "org.freedesktop.systemd1";
pub(super) const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const UNIT: &str = "org.freedesktop.systemd1.Unit";
const SERVICE: &str = "org.freedesktop.systemd1.Service";
/// For what systemd answers at once.
pub(super) const QUESTION: Duration = Duration::from_secs(25);
/// For reading all unit files again: generators may be slow.
const RELOAD: Duration = Duration::from_secs(90);
/// For starting and stopping: above systemd's own limit of 90 s for each, which a restart may need twice.
const JOB: Duration = Duration::from_secs(200);
/// Between two looks at a unit that was started.
const LOOK: Duration = Duration::from_millis(50);
/// Jobs that end while another one is waited for.
const QUEUED: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// The machine's systemd.
#[derive(Debug)]
pub struct RealUnits {
    bus: Mutex<Option<Rc<Bus>>>,
    watch: RefCell<Option<Watch>>,
    /// The units that were asked for: what happens to others is nobody's business.
    names: Arc<std::sync::Mutex<BTreeSet<String>>>,
}

/// A connection to systemd.
#[derive(Debug)]
pub(super) struct Bus {
    pub(super) connection: Connection,
    /// None on systemd's own socket.
    destination: Option<&'static str>,
}

impl Bus {
    pub(super) async fn connect() -> Result<Self, Failure> {
        let (builder, destination) = if direct::exists() {
            let stream = direct::connect().await.during("connect to systemd")?;
            (Builder::unix_stream(stream).p2p(), None)
        } else {
            (Builder::system(), Some(DESTINATION))
        };
        let building = builder.max_queued(QUEUED).build();
        let connection =
            timeout(QUESTION, building).await.during("connect to systemd")?.during("connect to systemd")?;
        Ok(Self { connection, destination })
    }

    /// Asks systemd to say what happens; on its own socket it does so unasked.
    pub(super) async fn subscribe(&self) -> Result<(), Failure> {
        match self.destination {
            None => Ok(()),
            Some(_) => self.manager("Subscribe", &(), QUESTION).await,
        }
    }

    pub(super) async fn manager<T: DeserializeOwned + Type>(
        &self,
        method: &str,
        body: &(impl Serialize + DynamicType),
        patience: Duration,
    ) -> Result<T, Failure> {
        let reply = self.call(MANAGER_PATH, MANAGER, method, body, patience).await?;
        reply.body().deserialize().during(format!("read systemd's answer to {method}"))
    }

    async fn call(
        &self,
        path: &str,
        interface: &str,
        method: &str,
        body: &(impl Serialize + DynamicType),
        patience: Duration,
    ) -> Result<Message, Failure> {
        let call = self.connection.call_method(self.destination, path, Some(interface), method, body);
        let reply = timeout(patience, call).await;
        let reply = reply.map_err(|_| {
            Failure::new(format!("systemd did not answer {method} within {} s", patience.as_secs()))
        })?;
        reply.map_err(|error| match error {
            // What systemd itself says is for people; the name of the error is not.
            zbus::Error::MethodError(name, text, _) => Failure::new(text.unwrap_or_else(|| name.to_string())),
            error => Failure::of("ask systemd", &error),
        })
    }

    pub(super) async fn property(&self, path: &str, of: &str, name: &str) -> Result<OwnedVariant, Failure> {
        let interface = "org.freedesktop.DBus.Properties";
        let reply = self.call(path, interface, "Get", &(of, name), QUESTION).await?;
        reply.body().deserialize().during(format!("read systemd's answer about {name}"))
    }

    /// A property; what none is where it is of another type.
    async fn property_as<T: TryFrom<OwnedVariant> + Default>(
        &self,
        path: &str,
        of: &str,
        name: &str,
    ) -> Result<T, Failure> {
        Ok(T::try_from(self.property(path, of, name).await?).unwrap_or_default())
    }
}

/// What systemd says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemState {
    /// Its version, as its distribution writes it.
    pub version: String,
    /// How the machine is: `running`, `degraded`, `starting`, … (systemctl(1), is-system-running).
    pub state: String,
}

/// Asks systemd how it and the machine are, on a connection of its own.
pub async fn system_state() -> Result<SystemState, Failure> {
    let bus = Bus::connect().await?;
    let ask = async |name: &str| {
        let value = bus.property(MANAGER_PATH, MANAGER, name).await?;
        String::try_from(value).during(format!("read systemd's answer about {name}"))
    };
    Ok(SystemState { version: ask("Version").await?, state: ask("SystemState").await? })
}

/// One unit as `ListUnitsByNames` has it: name, description, load, active, sub, following, path, job id, type, path.
pub(super) type Listed =
    (String, String, String, String, String, String, OwnedObjectPath, u32, String, OwnedObjectPath);

/// The body of `JobRemoved`: the job's number, its path, the unit, and how it ended.
type Removed = (u32, OwnedObjectPath, String, String);

impl Default for RealUnits {
    fn default() -> Self {
        Self { bus: Mutex::new(None), watch: RefCell::new(None), names: Arc::default() }
    }
}

impl RealUnits {
    /// The connection; made anew where it broke.
    async fn bus(&self) -> Result<Rc<Bus>, Failure> {
        let mut bus = self.bus.lock().await;
        if let Some(bus) = &*bus
            && !bus.connection.is_closed()
        {
            return Ok(Rc::clone(bus));
        }
        let new = Rc::new(Bus::connect().await?);
        *bus = Some(Rc::clone(&new));
        Ok(new)
    }

    /// Has systemd do a job for a unit and waits for its end.
    async fn job(&self, method: &str, name: &str) -> Result<(), Failure> {
        let bus = self.bus().await?;
        let rule = MatchRule::builder()
            .msg_type(message::Type::Signal)
            .interface(MANAGER)
            .member("JobRemoved")
            .build()
            .during("listen to systemd")?;
        let ended = MessageStream::for_match_rule(rule, &bus.connection, Some(QUEUED)).await;
        let mut ended = ended.during("listen to systemd")?;
        bus.subscribe().await?;
        let job: OwnedObjectPath = bus.manager(method, &(name, "replace"), QUESTION).await?;
        let wait = async {
            while let Some(message) = ended.next().await {
                let Ok(message) = message else { continue };
                let body = message.body();
                if let Ok((_, path, _, result)) = body.deserialize::<Removed>()
                    && path == job
                {
                    return Ok(result);
                }
            }
            Err(Failure::new("the connection to systemd broke"))
        };
        let result = timeout(JOB, wait).await;
        let result =
            result.map_err(|_| Failure::new(format!("it took longer than {} s", JOB.as_secs())))??;
        // "skipped": a condition of the unit does not hold, or it has nothing to do.
        if result == "done" || result == "skipped" {
            return Ok(());
        }
        let how = match self.status(name).await {
            Ok(status) if status.active == Active::Failed => Some(status.words()),
            _ => None,
        };
        Err(job_failure(name, &result, how.as_deref()))
    }

    /// How it stands with a unit that was started.
    async fn status(&self, name: &str) -> Result<Status, Failure> {
        let bus = self.bus().await?;
        let path: OwnedObjectPath = bus.manager("LoadUnit", &(name,), QUESTION).await?;
        let path = path.as_str();
        let state: String = bus.property_as(path, UNIT, "ActiveState").await?;
        let service = if name.strip_suffix(".service").is_some() {
            Some(ServiceStatus {
                kind: bus.property_as(path, SERVICE, "Type").await?,
                result: bus.property_as(path, SERVICE, "Result").await?,
                code: bus.property_as(path, SERVICE, "ExecMainCode").await?,
                status: bus.property_as(path, SERVICE, "ExecMainStatus").await?,
            })
        } else {
            None
        };
        Ok(Status { active: active(&state), sub: bus.property_as(path, UNIT, "SubState").await?, service })
    }
}

/// What a job's result means (org.freedesktop.systemd1(5), JobRemoved).
fn job_failure(name: &str, result: &str, how: Option<&str>) -> Failure {
    Failure::new(match result {
        "failed" => see_journal(name, how.unwrap_or("systemd says that it failed")),
        "dependency" => "something it requires failed".to_owned(),
        "timeout" => "systemd gave up waiting for it".to_owned(),
        "canceled" => "somebody else cancelled it".to_owned(),
        other => format!("systemd says: {other}"),
    })
}

fn see_journal(name: &str, how: &str) -> String {
    format!("{how}: see 'journalctl -u {name}'")
}

fn load(word: &str) -> Load {
    match word {
        "loaded" => Load::Loaded,
        "not-found" => Load::NotFound,
        other => Load::Bad(other.to_owned()),
    }
}

fn word(active: Active) -> &'static str {
    match active {
        Active::Yes => "active",
        Active::Starting => "activating",
        Active::Stopping => "deactivating",
        Active::No => "inactive",
        Active::Failed => "failed",
    }
}

fn active(word: &str) -> Active {
    match word {
        "active" | "reloading" | "refreshing" => Active::Yes,
        "activating" => Active::Starting,
        "deactivating" => Active::Stopping,
        "failed" => Active::Failed,
        _ => Active::No,
    }
}

/// `UnitFileState`: what can be neither enabled nor disabled has no answer.
fn enabled(word: &str) -> Option<bool> {
    match word {
        "enabled" | "linked" => Some(true),
        // Until the next start of the machine only.
        "disabled" | "enabled-runtime" | "linked-runtime" => Some(false),
        _ => None,
    }
}

#[async_trait(?Send)]
impl Units for RealUnits {
    fn new_round(&self) {}

    async fn look(&self, name: &str) -> Result<UnitFound, Failure> {
        let look = async {
            if let Ok(mut names) = self.names.lock() {
                names.insert(name.to_owned());
            }
            let bus = self.bus().await?;
            let listed: Vec<Listed> = bus.manager("ListUnitsByNames", &(vec![name],), QUESTION).await?;
            let (_, _, load_state, active_state, sub, _, path, ..) =
                listed.into_iter().next().ok_or_else(|| Failure::new("systemd has no answer"))?;
            let load = load(&load_state);
            // Of a unit that has no file there is no state of the file.
            let file: Result<String, Failure> = bus.manager("GetUnitFileState", &(name,), QUESTION).await;
            let needs_reload =
                load == Load::Loaded && bus.property_as(path.as_str(), UNIT, "NeedDaemonReload").await?;
            let enabled = file.ok().as_deref().and_then(enabled);
            Ok(UnitFound { load, active: active(&active_state), sub, enabled, needs_reload })
        };
        look.await.map_err(|why: Failure| why.during(format!("look at {name}")))
    }

    async fn reload(&self) -> Result<(), Failure> {
        self.bus().await?.manager("Reload", &(), RELOAD).await
    }

    async fn start(&self, name: &str) -> Result<(), Failure> {
        self.job("StartUnit", name).await?;
        self.ready(name).await
    }

    async fn stop(&self, name: &str) -> Result<(), Failure> {
        self.job("StopUnit", name).await
    }

    async fn restart(&self, name: &str) -> Result<(), Failure> {
        self.job("RestartUnit", name).await?;
        self.ready(name).await
    }

    async fn ready(&self, name: &str) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut up: Option<Instant> = None;
        loop {
            let status = self.status(name).await?;
            if status.active == Active::Yes {
                up.get_or_insert_with(Instant::now);
            }
            match status.verdict(up.map(|up| up.elapsed())) {
                Verdict::Ready => return Ok(()),
                Verdict::Failed(how) => return Err(Failure::new(see_journal(name, &how))),
                Verdict::Wait if begun.elapsed() > READY => {
                    let how = format!(
                        "it is still {} ({}) after {} s",
                        word(status.active),
                        status.sub,
                        READY.as_secs()
                    );
                    return Err(Failure::new(see_journal(name, &how)));
                }
                Verdict::Wait => sleep(LOOK).await,
            }
        }
    }

    async fn forget(&self, name: &str) -> Result<(), Failure> {
        // One that failed is kept by systemd until it is told so; any other may be dropped at any moment.
        if self.look(name).await?.active != Active::Failed {
            return Ok(());
        }
        self.bus().await?.manager("ResetFailedUnit", &(name,), QUESTION).await
    }

    async fn enable(&self, name: &str) -> Result<(), Failure> {
        type Answer = (bool, Vec<(String, String, String)>);
        // Neither for this start of the machine only, nor over links of others.
        let body = (vec![name], false, false);
        let (can_be, _): Answer = self.bus().await?.manager("EnableUnitFiles", &body, QUESTION).await?;
        if can_be { Ok(()) } else { Err(Failure::new("it has no [Install] section")) }
    }

    async fn disable(&self, name: &str) -> Result<(), Failure> {
        let bus = self.bus().await?;
        let _: Vec<(String, String, String)> =
            bus.manager("DisableUnitFiles", &(vec![name], false), QUESTION).await?;
        Ok(())
    }

    async fn changed(&self) {
        let watch =
            self.watch.borrow_mut().get_or_insert_with(|| Watch::start(Arc::clone(&self.names))).clone();
        watch.changed().await;
    }
}
