//! What the running host says of itself on the machine, for `mesh-host status`. No secrets: everybody may read it.

use serde::{Deserialize, Serialize};

use mesh_ids::{NodeName, Position};
use mesh_wire::kinds::{Kind, Mode};

use crate::{
    failure::Failure,
    host::Host,
    ledger::Origin,
    machine::{
        Machine,
        files::{Content, Found, Meta, Write},
    },
    report::LinkState,
    upgrade::State,
};

/// The folder of the status file, and the file.
pub const FOLDER: &str = "/run/mesh-host";
/// The status file.
pub const FILE: &str = "/run/mesh-host/status.json";

/// The state of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The version that runs.
    pub version: String,
    /// Its process.
    pub process: u32,
    /// The node, once it has joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// The connection to the broker.
    #[serde(flatten)]
    pub link: LinkState,
    /// The newest accepted declaration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Whether it is past its time.
    #[serde(default)]
    pub stale: bool,
    /// Why the last one that arrived was refused whole; empty where it was not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refused: String,
    /// Why nothing is applied at all; empty where it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trouble: String,
    /// Drift that no report delivered yet.
    #[serde(default)]
    pub undelivered_drift: usize,
    /// What is remembered of upgrades of the host.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub upgrade: State,
    /// Everything declared.
    #[serde(default)]
    pub resources: Vec<ResourceStatus>,
}

/// The state of one resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceStatus {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub origin: Origin,
    /// Its kind, where it could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Whether it is as declared.
    pub applied: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Since when it fails, in seconds since 1970-01-01 UTC; over restarts of the host too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<i64>,
    /// What it failed with first, where that is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_first: Option<String>,
    /// Where it is only observed: what of it is other than declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Vec<String>>,
}

impl ResourceStatus {
    /// Whether all is done about it that is to be done.
    pub fn is_settled(&self) -> bool {
        self.failed.is_none() && (self.applied || self.observed.is_some())
    }

    /// In a word or a few.
    /// `ago`: how a time is said that has passed since then.
    pub fn words(&self, ago: impl Fn(i64) -> String) -> String {
        match (&self.failed, &self.observed) {
            (Some(why), _) => {
                let since =
                    self.failing_since.map(|since| format!(" for {}", ago(since))).unwrap_or_default();
                let first = self.failed_first.as_ref().map(|first| format!("; at first: {first}"));
                format!("failed{since}: {why}{}", first.unwrap_or_default())
            }
            (None, Some(differs)) if differs.is_empty() => "observed: as declared".to_owned(),
            (None, Some(differs)) => format!("observed: other than declared: {}", differs.join("; ")),
            (None, None) if self.applied => "applied".to_owned(),
            (None, None) => "waiting".to_owned(),
        }
    }
}

fn is_nothing(upgrade: &State) -> bool {
    *upgrade == State::default()
}

impl Status {
    /// Of this host. `trouble`: why nothing is applied at all.
    pub fn of(host: &Host, link: &LinkState, trouble: &str) -> Self {
        let outcome = host.outcome();
        let upgrade = host.upgrade();
        // Which version runs is not decided before the trial is over.
        let is_open = |kind| kind == Some(Kind::Host) && upgrade.trial.is_some();
        let applied: std::collections::BTreeSet<_> = outcome.applied.iter().collect();
        let mut resources: Vec<ResourceStatus> = host
            .declared()
            .map(|(origin, declared)| {
                let (id, kind) = match declared {
                    Ok(resource) => (resource.id.to_string(), Some(resource.spec.kind())),
                    Err(unreadable) => (unreadable.id.clone(), None),
                };
                let key = declared.as_ref().ok().map(|resource| (origin, resource.id.clone()));
                let failed = outcome.failed.get(&(origin, id.clone())).map(ToString::to_string);
                let applied = key.as_ref().is_some_and(|key| applied.contains(key)) && !is_open(kind);
                let observed = key.and_then(|key| outcome.observed.get(&key).cloned());
                ResourceStatus { id, origin, kind, applied, failed, observed, ..ResourceStatus::default() }
            })
            .collect();
        // What is no longer declared and could not be removed.
        for ((origin, id), why) in &outcome.failed {
            if !resources.iter().any(|resource| resource.origin == *origin && resource.id == *id) {
                let (id, failed) = (id.clone(), Some(why.to_string()));
                resources.push(ResourceStatus { id, origin: *origin, failed, ..ResourceStatus::default() });
            }
        }
        for resource in &mut resources {
            let Some(why) = &resource.failed else { continue };
            let since = host.failing_since(&(resource.origin, resource.id.clone()));
            resource.failing_since = since.map(|since| since.at);
            resource.failed_first = since.and_then(|since| since.other_than(why)).map(str::to_owned);
        }
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            node: host.node().cloned(),
            link: link.clone(),
            position: host.position(),
            stale: host.is_stale(),
            refused: host.refused().to_owned(),
            trouble: trouble.to_owned(),
            undelivered_drift: host.memory().drift.len(),
            upgrade,
            resources,
        }
    }

    /// Writes the status file.
    pub fn write(&self, machine: &Machine) -> Result<(), Failure> {
        let meta = |mode| Meta { mode: Mode::new(mode), owner: "root".to_owned(), group: "root".to_owned() };
        if machine.files.look(FOLDER)? == Found::Nothing {
            machine
                .files
                .make_directory(FOLDER, &meta(0o755))
                .map_err(|e| e.during(format!("make {FOLDER}")))?;
        }
        let json = serde_json::to_vec(self).map_err(|error| Failure::of("write the status", &error))?;
        let write = Write { path: FILE.to_owned(), content: Content::new(&json), meta: meta(0o644) };
        machine
            .files
            .write(&[write])
            .into_iter()
            .collect::<Result<(), _>>()
            .map_err(|e| e.during(format!("write {FILE}")))
    }

    /// Reads the status file; `None` where there is none.
    pub fn read(machine: &Machine) -> Result<Option<Self>, Failure> {
        if machine.files.look(FILE)? == Found::Nothing {
            return Ok(None);
        }
        let bytes = machine.files.read(FILE)?;
        let status = serde_json::from_slice(&bytes);
        status.map(Some).map_err(|error| Failure::of(format!("read {FILE}"), &error))
    }
}
