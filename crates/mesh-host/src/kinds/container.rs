//! The kind `container`: kept running, or run to its end once.
//!
//! A container that runs as declared is left alone, also across restarts of the host, the engine and the machine; one
//! that ended is started again, not made again; one that runs and is to become another is kept until the other is ready
//! ([`replace`]). Another one of the same name that no host made is never touched.

mod replace;

use std::borrow::Cow;

use mesh_wire::kinds::{ContainerSpec, Lifecycle, Protocol};

use self::replace::Replacement;
use super::{Claim, Kind, Memory};
use crate::{
    failure::Failure,
    machine::{
        Machine,
        engine::{
            Container as Found, Draft, Ended, EngineStep, State, Watch,
            replace::{failed_of, next_of, old_of},
        },
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
    /// The one that is to take its place.
    pub next: Option<Found>,
    /// The one that gave it its place.
    pub old: Option<Found>,
    /// The one that was to take its place, and did not become ready.
    pub failed: Option<Failed>,
    /// How it ended; looked at only where it is as declared and has ended.
    pub ended: Option<Ended>,
    /// Whether it ended soon after each of its last starts, and is to be left alone for now.
    pub held: bool,
    /// What it answered last, where its answers stay bad while it runs.
    pub unwell: Option<Failure>,
    /// Whether the engine has the image; looked at only where the container has to be made.
    pub image: Option<bool>,
}

/// A container that did not become ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// It.
    pub container: Found,
    /// How long ago it was made, in seconds by the machine's clock; less than nothing where that was set back.
    pub age_s: i64,
    /// How it ended; looked at only where it is what is declared.
    pub ended: Option<Ended>,
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
        let (engine, name) = (&machine.engine, &spec.name);
        let contents = engine.look().await?;
        let found = contents.containers.get(name).cloned();
        // What no host made is in nobody's way until the engine says so.
        let beside = |name: String| contents.containers.get(&name).filter(|it| it.spec().is_some()).cloned();
        let failed = match beside(failed_of(name)) {
            None => None,
            Some(container) => {
                let age_s = machine.clock.now().saturating_sub(container.created);
                let declared = is_same(spec, &container);
                let ended = if declared { engine.ended(&failed_of(name)).await? } else { None };
                Some(Failed { container, age_s, ended })
            }
        };
        let same = found.as_ref().is_some_and(|found| is_same(spec, found));
        let is = |state: State| found.as_ref().is_some_and(|found| found.state == state);
        let ended = if same && is(State::Exited) { engine.ended(name).await? } else { None };
        let held = is(State::Exited) && engine.wait_before_start(name).is_some();
        let watch =
            spec.ready.clone().zip(spec.health.clone()).map(|(ready, health)| Watch { ready, health });
        let runs = same && is(State::Running);
        engine.watch(name, watch.as_ref().filter(|_| runs));
        let unwell = if runs { engine.unwell(name) } else { None };
        let image = if same { None } else { Some(engine.has_image(&spec.image).await?) };
        let (next, old) = (beside(next_of(name)), beside(old_of(name)));
        Ok(ContainerObserved { found, next, old, failed, ended, held, unwell, image })
    }

    fn before(_: &ContainerSpec, _: &ContainerObserved, _: Option<&()>) {}

    fn plan(
        spec: &ContainerSpec,
        observed: &ContainerObserved,
        memory: &Memory<Self>,
    ) -> Result<Vec<Step>, Failure> {
        let once = spec.lifecycle == Lifecycle::Once;
        if once && memory.applied.is_some() && memory.changed.is_empty() {
            // It ran to its end as declared. Whether what is left of it is still there does not matter.
            return Ok(Vec::new());
        }
        if observed.found.as_ref().is_some_and(|found| found.spec().is_none()) {
            return Err(Failure::new(format!(
                "the engine has a container {} that the mesh did not make: remove or rename it, or declare another name",
                spec.name
            )));
        }
        let replacement = Replacement { spec, observed, memory };
        if let Some(steps) = replacement.unfinished() {
            return Ok(steps);
        }
        let Some(found) = &observed.found else {
            return Ok(replacement.leftovers().into_iter().chain(make(spec, observed, memory)).collect());
        };
        match why_replace(spec, found, memory) {
            None if once => plan_once(&replacement, found),
            None => plan_service(&replacement, found),
            // One that ended is kept too: a host that was killed may have stopped it.
            Some(why) if !once && matches!(found.state, State::Running | State::Exited) => {
                match replacement.held() {
                    None => Ok(replacement.with_way_back(found, &why)),
                    Some(_) if found.state == State::Exited && !observed.held => {
                        Ok(vec![Step::Engine(EngineStep::StartContainer(spec.name.clone()))])
                    }
                    Some(held) => Err(held),
                }
            }
            Some(why) => Ok(anew(&replacement, found, &why)),
        }
    }

    fn remove(spec: &ContainerSpec, observed: &ContainerObserved, (): &()) -> Result<Vec<Step>, Failure> {
        let memory = Memory { before: (), applied: None, changed: Vec::new(), reads: String::new() };
        let leftovers = Replacement { spec, observed, memory: &memory }.leftovers();
        let found = observed.found.as_ref().filter(|found| found.spec().is_some());
        let found = found.map(|found| take_away(spec, found, "", false)).unwrap_or_default();
        Ok(leftovers.into_iter().chain(found).collect())
    }
}

/// Whether the container that exists was made from exactly what is declared, completely.
fn is_same(spec: &ContainerSpec, found: &Found) -> bool {
    found.spec() == Some(&Draft::fingerprint(spec))
        && spec.networks.iter().all(|network| found.networks.contains(network))
}

/// Why a container has to give its place to another one; none where it can stay.
fn why_replace(spec: &ContainerSpec, found: &Found, memory: &Memory<Container>) -> Option<String> {
    if !is_same(spec, found) {
        return Some("its declaration changed".to_owned());
    }
    if !memory.changed.is_empty() {
        let names: Vec<&str> = memory.changed.iter().map(AsRef::as_ref).collect();
        return Some(format!("{} changed", names.join(", ")));
    }
    match &found.state {
        State::Other(word) => Some(format!("it is {word}")),
        _ => None,
    }
}

/// Of one that was made as declared, and runs to its end.
fn plan_once(replacement: &Replacement<'_>, found: &Found) -> Result<Vec<Step>, Failure> {
    let Replacement { spec, observed, .. } = replacement;
    match (&found.state, &observed.ended) {
        (State::Exited, Some(ended)) if ended.code == 0 => Ok(Vec::new()),
        (State::Exited, ended) => {
            left_alone(replacement, ended.as_ref())?;
            // It failed, or was cut off: once more, from the beginning.
            Ok(anew(replacement, found, "it did not succeed"))
        }
        (State::Running, _) => Ok(await_it(spec, &spec.name)),
        _ => Ok(start(spec, &spec.name)),
    }
}

/// Of one that was made as declared, and is kept running.
fn plan_service(replacement: &Replacement<'_>, found: &Found) -> Result<Vec<Step>, Failure> {
    let Replacement { spec, observed, memory } = replacement;
    let steps = match &found.state {
        State::Running if memory.applied.is_some() => match &observed.unwell {
            Some(answer) => restart(spec, answer),
            None => Vec::new(),
        },
        State::Running => await_it(spec, &spec.name),
        State::Exited => {
            left_alone(replacement, observed.ended.as_ref())?;
            start(spec, &spec.name)
        }
        _ => start(spec, &spec.name),
    };
    Ok(replacement.judged_where(steps))
}

/// Fails while one that ended soon after each of its last starts is to be left alone.
fn left_alone(replacement: &Replacement<'_>, ended: Option<&Ended>) -> Result<(), Failure> {
    let Replacement { spec, observed, .. } = replacement;
    match ended {
        Some(ended) if observed.held => {
            let ended = ended.in_words(spec.private_log);
            Err(Failure::new(format!(
                "{ended}; as it ended soon after each of its last starts, it is started again later"
            )))
        }
        _ => Ok(()),
    }
}

fn fetch(spec: &ContainerSpec, observed: &ContainerObserved) -> Vec<Step> {
    let missing = observed.image == Some(false);
    missing.then(|| Step::Engine(EngineStep::FetchImage(spec.image.clone()))).into_iter().collect()
}

fn make(spec: &ContainerSpec, observed: &ContainerObserved, memory: &Memory<Container>) -> Vec<Step> {
    let draft = Draft::of(spec).reading(&memory.reads);
    let create = Step::Engine(EngineStep::CreateContainer(Box::new(draft)));
    fetch(spec, observed).into_iter().chain([create]).chain(start(spec, &spec.name)).collect()
}

/// In the place of one that there is no way back to.
fn anew(replacement: &Replacement<'_>, found: &Found, why: &str) -> Vec<Step> {
    let Replacement { spec, observed, memory } = replacement;
    // The image is fetched first, whatever there is to be taken away.
    let mut steps = fetch(spec, observed);
    let fetched = steps.len();
    steps.extend(replacement.leftovers());
    let why = format!("to replace it, because {why}");
    steps.extend(take_away(spec, found, &why, !memory.changed.is_empty()));
    steps.extend(make(spec, observed, memory).into_iter().skip(fetched));
    steps
}

fn take_away(spec: &ContainerSpec, found: &Found, why: &str, restarts: bool) -> Vec<Step> {
    // A container that ended by itself is not stopped; after a change it is, so that it is not held back any longer.
    let stop = matches!(found.state, State::Running | State::Other(_)) || restarts;
    let stop = stop.then(|| EngineStep::StopContainer {
        container: spec.name.clone(),
        grace_s: spec.stop_grace_s,
        why: why.to_owned(),
        restarts,
    });
    stop.into_iter().chain([EngineStep::RemoveContainer(spec.name.clone())]).map(Step::Engine).collect()
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
    [stop].into_iter().chain(start(spec, &spec.name)).collect()
}

/// Starts what is declared under this name of the engine.
fn start(spec: &ContainerSpec, name: &str) -> Vec<Step> {
    let start = Step::Engine(EngineStep::StartContainer(name.to_owned()));
    [start].into_iter().chain(await_it(spec, name)).collect()
}

fn await_it(spec: &ContainerSpec, name: &str) -> Vec<Step> {
    let (container, private_log) = (name.to_owned(), spec.private_log);
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
