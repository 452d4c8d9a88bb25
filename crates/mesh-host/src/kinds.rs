//! The kinds of resource: one file each, all of the same shape, so that one contract suite runs over all of them.
//!
//! A kind looks at the machine and says what to do; it never does it ([`Step::apply`] does) and never keeps anything
//! (the ledger does). Called by [`crate::reconcile`] only, through [`for_kind`](crate::for_kind).

pub mod container;
pub mod database;
pub mod directory;
pub mod file;
pub mod host;
pub mod image;
pub mod network;
pub mod package;
pub mod sysctl;
pub mod timer;
pub mod unit;
pub mod user;
pub mod vhost;
pub mod volume;

use std::{borrow::Cow, fmt};

use mesh_ids::ResourceId;
use serde::{Serialize, de::DeserializeOwned};

use crate::{failure::Failure, machine::Machine, step::Step};

/// A kind of resource.
#[expect(async_fn_in_trait, reason = "everything runs on one thread: no future has to be Send")]
pub trait Kind {
    /// What is declared of it.
    type Spec: Clone + PartialEq;
    /// What the machine has of it.
    type Observed;
    /// What the machine had before the host first touched it; kept by the ledger until the resource is removed.
    type Before: Serialize + DeserializeOwned + Clone + PartialEq;

    /// What of the machine the resource wants for itself. Two resources that claim the same thing clash.
    fn claims(spec: &Self::Spec) -> Vec<Claim>;

    /// Which thing of the machine it is, e.g. the path of a file. A resource that keeps its id and becomes another
    /// thing is removed as the old one first.
    fn subject(spec: &Self::Spec) -> Cow<'_, str>;

    /// Looks at the machine. Changes nothing.
    async fn observe(machine: &Machine, spec: &Self::Spec) -> Result<Self::Observed, Failure>;

    /// What is there instead of what is declared, in words for a person: who reads it wants to know what something was
    /// changed to. Never what a file holds. `None` where nothing is other, or the steps say it all.
    fn found(_spec: &Self::Spec, _observed: &Self::Observed) -> Option<String> {
        None
    }

    /// Looks at the machine, also at what was declared earlier and no longer is: `before` is what [`Kind::before`] said
    /// last. For kinds of which a part can be given up while the rest stays.
    async fn observe_since(
        machine: &Machine,
        spec: &Self::Spec,
        before: Option<&Self::Before>,
    ) -> Result<Self::Observed, Failure> {
        let _ = before;
        Self::observe(machine, spec).await
    }

    /// What has to be put back on removal. Called before the first step is applied, and again with what it said then
    /// whenever what is declared changes (a changed declaration may touch more). Pure.
    fn before(spec: &Self::Spec, observed: &Self::Observed, earlier: Option<&Self::Before>) -> Self::Before;

    /// What makes the machine as declared; empty where it is. The same input gives the same steps. Pure.
    fn plan(
        spec: &Self::Spec,
        observed: &Self::Observed,
        memory: &Memory<Self>,
    ) -> Result<Vec<Step>, Failure>;

    /// What puts the machine back to what it was; empty where nothing is left to do. Pure.
    fn remove(
        spec: &Self::Spec,
        observed: &Self::Observed,
        before: &Self::Before,
    ) -> Result<Vec<Step>, Failure>;

    /// What restarts what runs on after the removal, as it did before: a host that was killed in between does not know
    /// whether it was. Pure.
    fn restart(spec: &Self::Spec, observed: &Self::Observed, before: &Self::Before) -> Option<Step> {
        let _ = (spec, observed, before);
        None
    }
}

/// What the ledger knows of a resource when its steps are planned.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory<K: Kind + ?Sized> {
    /// What stood there before.
    pub before: K::Before,
    /// What is declared, if exactly that was completely applied before. A difference is drift then.
    pub applied: Option<K::Spec>,
    /// Which of the resources in `restart_on` changed since this one was last started. Never empty after a restart was
    /// planned and not completed.
    pub changed: Vec<ResourceId>,
    /// Which state of the resources in `restart_on` it reads if it is started now. Equal texts, equal states.
    pub reads: String,
}

/// Something of the machine that only one resource may have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim(String);

impl Claim {
    /// The `what` called `name`, e.g. `path /etc/motd`, `unit hello.service`, `port 80/tcp`, `container store`.
    pub fn new(what: &str, name: impl fmt::Display) -> Self {
        Self(format!("{what} {name}"))
    }

    /// A path.
    pub fn path(path: &str) -> Self {
        Self::new("path", path)
    }

    /// The path, if it is one.
    pub fn as_path(&self) -> Option<&str> {
        self.0.strip_prefix("path ")
    }

    /// The same claim, of the path to which this one leads.
    #[must_use]
    pub fn led(self, lead: &dyn Fn(&str) -> String) -> Self {
        self.as_path().map(|path| Self::path(&lead(path))).unwrap_or(self)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Runs `$body` with `$kind` naming the kind of `$spec` and `$inner` its spec. `$body` is a `Result<_, Failure>`.
#[macro_export]
macro_rules! for_kind {
    ($spec:expr, |$kind:ident, $inner:ident| $body:expr) => {{
        let result: Result<_, $crate::failure::Failure> = match $spec {
            ::mesh_wire::Spec::Directory($inner) => {
                type $kind = $crate::kinds::directory::Directory;
                $body
            }
            ::mesh_wire::Spec::File($inner) => {
                type $kind = $crate::kinds::file::File;
                $body
            }
            ::mesh_wire::Spec::Package($inner) => {
                type $kind = $crate::kinds::package::Package;
                $body
            }
            ::mesh_wire::Spec::Unit($inner) => {
                type $kind = $crate::kinds::unit::Unit;
                $body
            }
            ::mesh_wire::Spec::Timer($inner) => {
                type $kind = $crate::kinds::timer::Timer;
                $body
            }
            ::mesh_wire::Spec::User($inner) => {
                type $kind = $crate::kinds::user::User;
                $body
            }
            ::mesh_wire::Spec::Sysctl($inner) => {
                type $kind = $crate::kinds::sysctl::Sysctl;
                $body
            }
            ::mesh_wire::Spec::Container($inner) => {
                type $kind = $crate::kinds::container::Container;
                $body
            }
            ::mesh_wire::Spec::Image($inner) => {
                type $kind = $crate::kinds::image::Image;
                $body
            }
            ::mesh_wire::Spec::Volume($inner) => {
                type $kind = $crate::kinds::volume::Volume;
                $body
            }
            ::mesh_wire::Spec::Network($inner) => {
                type $kind = $crate::kinds::network::Network;
                $body
            }
            ::mesh_wire::Spec::Database($inner) => {
                type $kind = $crate::kinds::database::Database;
                $body
            }
            ::mesh_wire::Spec::Vhost($inner) => {
                type $kind = $crate::kinds::vhost::Vhost;
                $body
            }
            ::mesh_wire::Spec::Host($inner) => {
                type $kind = $crate::kinds::host::Host;
                $body
            }
        };
        result
    }};
}
