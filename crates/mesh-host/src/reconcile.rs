//! Makes the machine as declared: order, clashes, removal, steps, drift. Pure where it decides.
//!
//! A round looks at everything. Removal comes first, in the reverse order of application; then the resources in their
//! order. What is only observed is looked at in its place, and nothing waits for it. Before a step is taken the ledger has it, so that a host that was killed goes on where it was. Called by
//! [`crate::host`] only.

pub mod claims;
pub mod order;
mod paths;
mod patience;
mod plan;
mod prepare;
mod round;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mesh_ids::{ImageRef, ResourceId};
use mesh_wire::{Resource, Spec, UnreadableResource};
pub(crate) use paths::Ways;
pub use patience::{NotYet, Patience};
pub use plan::{Plan, Planned, plan};
pub(crate) use prepare::is_same_thing;
pub use round::round;

use crate::{failure::Failure, ledger::Origin, step::Step};

/// A resource as declared, or why it cannot be read.
pub type Declared = Result<Resource, UnreadableResource>;

/// What the machine should be.
#[derive(Debug, Clone, Copy)]
pub struct Desired<'a> {
    /// By its bundle.
    pub carried: &'a [Declared],
    /// By the mesh; `None` where that is not known: then nothing assigned is touched.
    pub assigned: Option<&'a [Declared]>,
    /// Whether the declaration is past its time: then nothing assigned is removed.
    pub stale: bool,
    /// Seconds since 1970-01-01 UTC.
    pub now: i64,
}

impl Desired<'_> {
    /// Every image that some resource wants.
    fn images(&self) -> BTreeSet<ImageRef> {
        let declared = self.carried.iter().chain(self.assigned.unwrap_or_default()).flatten();
        let image = |resource: &Resource| match &resource.spec {
            Spec::Image(image) => Some(image.image.clone()),
            Spec::Container(container) => Some(container.image.clone()),
            _ => None,
        };
        declared.filter_map(image).collect()
    }

    fn list(&self, origin: Origin) -> Option<&[Declared]> {
        match origin {
            Origin::Carried => Some(self.carried),
            Origin::Assigned => self.assigned,
        }
    }

    /// Whether a resource that is declared is only observed. Of one that cannot be read that is not known.
    fn observes(&self, origin: Origin, id: &ResourceId) -> Option<bool> {
        let list = self.list(origin)?;
        let found = list.iter().find(|declared| match declared {
            Ok(resource) => resource.id == *id,
            Err(unreadable) => unreadable.id == id.as_str(),
        });
        match found {
            Some(Ok(resource)) => Some(resource.observe_only),
            Some(Err(_)) => None,
            None => Some(false),
        }
    }

    /// Every package that some resource wants.
    fn packages(&self) -> BTreeSet<String> {
        let declared = self.carried.iter().chain(self.assigned.unwrap_or_default()).flatten();
        let names = declared.filter_map(|resource| match &resource.spec {
            Spec::Package(package) => Some(&package.names),
            _ => None,
        });
        names.flatten().cloned().collect()
    }
}

/// What a round did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What is as declared now, in order.
    pub applied: Vec<(Origin, ResourceId)>,
    /// What is not, and why. By origin and id; an id that could not be read is `resource 3`.
    pub failed: BTreeMap<(Origin, String), Failure>,
    /// What is only observed, and what of it is other than declared: nothing, where it is as declared.
    pub observed: BTreeMap<(Origin, ResourceId), Vec<String>>,
    /// How many steps were taken.
    pub steps: usize,
    /// How many of the resources had drifted.
    pub drifted: usize,
    /// When something is tried again that did not stay as declared, from now on.
    pub again_in: Option<Duration>,
}

/// Hears of every step before it is taken.
pub type Progress<'a> = &'a mut dyn FnMut(Origin, &ResourceId, &Step);
