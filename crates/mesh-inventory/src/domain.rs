//! What inventory decides, without a database and without a clock.

mod change;
mod claims;
mod instance;
mod node;
mod placement;
mod plan;
mod report;
mod words;

pub(crate) use change::Change;
pub use instance::InstanceState;
pub(crate) use instance::{Assignment, instance_state};
pub use node::NodeState;
pub(crate) use node::{disconnected_for, hear, judge};
pub(crate) use placement::{Candidate, choose};
pub use plan::{NodePlan, Plan, PlanIndex, PlannedStep, RESERVED_NAMES, Refusal, StepAction};
pub(crate) use plan::{
    PlacedModule, World, WorldNode, plan_apply, plan_placement, plan_removal, plan_removal_again,
};
pub(crate) use report::{Held, OpenDrift, Weighed, weigh};
