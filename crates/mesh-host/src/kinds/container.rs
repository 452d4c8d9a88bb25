//! The kind `container`: kept running, or run to its end once.
//!
//! A container that runs as declared is left alone, also across restarts of the host, the engine and the machine; one
//! that ended is started again, not made again. Another one of the same name that no host made is never touched.

use std::borrow::Cow;

use mesh_wire::kinds::{ContainerSpec, Lifecycle, Protocol};

use super::{Claim, Kind, Memory};
use crate::{
    failure::Failure,
    machine::{
        Machine,
        engine::{Container as Found, Draft, Ended, EngineStep, State, Watch},
    },
    step::Step,
};

/// How long a container that runs to its end may take where it does not say.
const END_WITHIN_S: u32 = 600;

/// The kind.
#[derive(Debug)]
pub struct Container;

/// What the engine has of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerObserved {
    /// The container of this name.
    pub found: Option<Found>,
    /// How it ended; looked at only where it is as declared and has ended.
    pub ended: Option<Ended>,
    /// Whether it ended soon after each of its last starts, and is to be left alone for now.
    pub held: bool,
    /// What it answered last, where its answers stay bad while it runs.
    pub unwell: Option<Failure>,
    /// Whether the engine has the image; looked at only where the container has to be made.
    pub image: Option<bool>,
}

impl Kind for Container {
    type Spec = ContainerSpec;
    type Observed = ContainerObserved;
    type Before = ();

    fn claims(spec: &ContainerSpec) -> Vec<Claim> {
        let port = |port: &mesh_wire::kinds::Port| {
            let protocol = match port.protocol {
                Protocol::Tcp => "tcp",
                Protocol::Udp => "udp",
            };
            Claim::new("port", format_args!("{}/{protocol}", port.host))
        };
        [Claim::new("container", &spec.name)].into_iter().chain(spec.ports.iter().map(port)).collect()
    }

    fn subject(spec: &ContainerSpec) -> Cow<'_, str> {
        Cow::Borrowed(&spec.name)
    }

    async fn observe(machine: &Machine, spec: &ContainerSpec) -> Result<ContainerObserved, Failure> {
        let engine = &machine.engine;
        let found = engine.look().await?.containers.get(&spec.name).cloned();
        let same = found.as_ref().is_some_and(|found| is_same(spec, found));
        let exited = same && found.as_ref().is_some_and(|found| found.state == State::Exited);
        let ended = if exited { engine.ended(&spec.name).await? } else { None };
        let held = exited && engine.wait_before_start(&spec.name).is_some();
        let watch =
            spec.ready.clone().zip(spec.health.clone()).map(|(ready, health)| Watch { ready, health });
        let runs = same && found.as_ref().is_some_and(|found| found.state == State::Running);
        engine.watch(&spec.name, watch.as_ref().filter(|_| runs));
        let unwell = if runs { engine.unwell(&spec.name) } else { None };
        let image = if same { None } else { Some(engine.has_image(&spec.image).await?) };
        Ok(ContainerObserved { found, ended, held, unwell, image })
    }

    fn before(_: &ContainerSpec, _: &ContainerObserved, _: Option<&()>) {}

    fn plan(
        spec: &ContainerSpec,
        observed: &ContainerObserved,
        memory: &Memory<Self>,
    ) -> Result<Vec<Step>, Failure> {
        let done = memory.applied.is_some();
        let once = spec.lifecycle == Lifecycle::Once;
        if once && done && memory.changed.is_empty() {
            // It ran to its end as declared. Whether what is left of it is still there does not matter.
            return Ok(Vec::new());
        }
        let Some(found) = &observed.found else { return Ok(make(spec, observed)) };
        let Some(_) = found.spec() else {
            return Err(Failure::new(format!(
                "the engine has a container {} that the mesh did not make: remove or rename it, or declare another name",
                spec.name
            )));
        };
        let why = if !is_same(spec, found) {
            Some("its declaration changed".to_owned())
        } else if !memory.changed.is_empty() {
            let names: Vec<&str> = memory.changed.iter().map(AsRef::as_ref).collect();
            Some(format!("{} changed", names.join(", ")))
        } else if let State::Other(word) = &found.state {
            Some(format!("it is {word}"))
        } else {
            None
        };
        if let Some(why) = why {
            return Ok(replace(spec, observed, found, &why, !memory.changed.is_empty()));
        }
        if let (State::Exited, Some(ended)) = (&found.state, &observed.ended) {
            if once && ended.code == 0 {
                return Ok(Vec::new());
            }
            if observed.held {
                let ended = ended.in_words(spec.private_log);
                return Err(Failure::new(format!(
                    "{ended}; as it ended soon after each of its last starts, it is started again later"
                )));
            }
        }
        Ok(match (&found.state, once) {
            // It failed, or was cut off: once more, from the beginning.
            (State::Exited, true) => replace(spec, observed, found, "it did not succeed", false),
            (State::Running, false) if done => match &observed.unwell {
                Some(answer) => restart(spec, answer),
                None => Vec::new(),
            },
            (State::Running, _) => await_it(spec),
            _ => start(spec),
        })
    }

    fn remove(spec: &ContainerSpec, observed: &ContainerObserved, (): &()) -> Result<Vec<Step>, Failure> {
        Ok(match &observed.found {
            Some(found) if found.spec().is_some() => {
                take_away(spec, found, "", false).into_iter().map(Step::Engine).collect()
            }
            _ => Vec::new(),
        })
    }
}

/// Whether the container that exists was made from exactly what is declared, completely.
fn is_same(spec: &ContainerSpec, found: &Found) -> bool {
    found.spec() == Some(&Draft::fingerprint(spec))
        && spec.networks.iter().all(|network| found.networks.contains(network))
}

fn make(spec: &ContainerSpec, observed: &ContainerObserved) -> Vec<Step> {
    let fetch = observed.image == Some(false);
    let fetch = fetch.then(|| Step::Engine(EngineStep::FetchImage(spec.image.clone())));
    let create = Step::Engine(EngineStep::CreateContainer(Box::new(Draft::of(spec))));
    fetch.into_iter().chain([create]).chain(start(spec)).collect()
}

fn replace(
    spec: &ContainerSpec,
    observed: &ContainerObserved,
    found: &Found,
    why: &str,
    restarts: bool,
) -> Vec<Step> {
    let mut steps = make(spec, observed);
    // The image is fetched first: what runs now runs on meanwhile.
    let fetched = usize::from(observed.image == Some(false));
    let away = take_away(spec, found, &format!("to replace it, because {why}"), restarts);
    steps.splice(fetched..fetched, away.into_iter().map(Step::Engine));
    steps
}

fn take_away(spec: &ContainerSpec, found: &Found, why: &str, restarts: bool) -> Vec<EngineStep> {
    let remove = EngineStep::RemoveContainer(spec.name.clone());
    // A container that ended by itself is not stopped; after a change it is, so that it is not held back any longer.
    if matches!(found.state, State::Running | State::Other(_)) || restarts {
        let stop = EngineStep::StopContainer {
            container: spec.name.clone(),
            grace_s: spec.stop_grace_s,
            why: why.to_owned(),
            restarts,
        };
        vec![stop, remove]
    } else {
        vec![remove]
    }
}

/// It runs, and does not do what it is there for.
fn restart(spec: &ContainerSpec, answer: &Failure) -> Vec<Step> {
    let answer = if spec.private_log { "its answers stay bad".to_owned() } else { answer.to_string() };
    let stop = Step::Engine(EngineStep::StopContainer {
        container: spec.name.clone(),
        grace_s: spec.stop_grace_s,
        why: format!("to restart it, because it is not well: {answer}"),
        restarts: false,
    });
    [stop].into_iter().chain(start(spec)).collect()
}

fn start(spec: &ContainerSpec) -> Vec<Step> {
    let start = Step::Engine(EngineStep::StartContainer(spec.name.clone()));
    [start].into_iter().chain(await_it(spec)).collect()
}

fn await_it(spec: &ContainerSpec) -> Vec<Step> {
    let (container, private_log) = (spec.name.clone(), spec.private_log);
    let step = match (spec.lifecycle, &spec.ready) {
        (Lifecycle::Once, ready) => {
            let within_s = ready.as_ref().map_or(END_WITHIN_S, |ready| ready.within_s);
            EngineStep::AwaitEnd { container, within_s, private_log }
        }
        (Lifecycle::Service, Some(ready)) => {
            EngineStep::AwaitReady { container, ready: ready.clone(), private_log }
        }
        (Lifecycle::Service, None) => return Vec::new(),
    };
    vec![Step::Engine(step)]
}
