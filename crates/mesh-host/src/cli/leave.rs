//! `mesh-host leave`: the machine is nobody's again.

use clap::Args;

use super::{Ended, Exit, output::print, trust};
use crate::{
    leave::{self, LeaveError},
    machine::Machine,
    paths::Paths,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Everything the mesh assigned is removed, and what stood there before is put back. Where the
machine carries nothing, the host's own unit, ledger and folders go, too. Volumes and databases
keep their data; what stays is said, with the reason. Killed, the same command goes on from there.
The mesh still lists the node: 'mesh node remove NAME' there.

Examples:
  mesh-host leave
  mesh-host leave --carried   also what the machine carries: the substrate of a first node")]
pub(super) struct Leave {
    /// Also remove what the machine carries.
    #[arg(long)]
    carried: bool,
}

impl Leave {
    pub(super) async fn run(self, paths: &Paths) -> Result<Exit, Ended> {
        // A machine whose keys are gone can leave, too.
        let trust = trust(paths).ok().flatten().map(|(_, _, trust)| trust);
        let machine = Machine::real(paths);
        let mut tell = |id: &str, step: &crate::step::Step| print(format_args!("{id}: {step}"));
        let left = leave::leave(paths, &machine, trust, self.carried, &mut tell).await?;
        for stays in &left.stays {
            print(format_args!("stays: {stays}"));
        }
        print(if left.was_a_node {
            "left the mesh"
        } else {
            "this machine had joined no mesh; nothing assigned is left"
        });
        Ok(Exit::Done)
    }
}

impl From<LeaveError> for Ended {
    fn from(error: LeaveError) -> Self {
        match error {
            LeaveError::Refused(why) => Self::new(Exit::Refused, why.to_string()),
            LeaveError::Failed(why) => why.into(),
        }
    }
}
