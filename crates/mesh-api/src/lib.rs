//! What a client and the control plane say to each other over HTTP: one type a message, and the stable problem codes.
//!
//! Vocabulary only. The control plane serves these types, `mesh-client` reads them, and the OpenAPI document is
//! generated from them.

mod change;
mod event;
mod invitation;
mod module;
mod node;
mod problem;

pub use change::{Applied, ApplyRequest, Change, NodeChange, Plan, PlanRequest, PlannedStep, StepAction};
pub use event::{EventList, EventView};
pub use invitation::{Invitation, InviteRequest};
pub use module::{InstanceState, InstanceView, ModuleList, ModuleView};
pub use node::{DiskView, FactsView, NodeList, NodeState, NodeView, PositionView, Recovery};
pub use problem::{Problem, ProblemCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What answers, and for which mesh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// The version of the control plane.
    pub version: String,
    /// The mesh it serves.
    #[schema(value_type = String)]
    pub mesh: mesh_ids::MeshId,
}
