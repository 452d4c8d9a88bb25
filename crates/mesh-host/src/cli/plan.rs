//! `mesh-host plan FILE`: what applying a file would do. Touches nothing.

use std::path::PathBuf;

use clap::Args;

use super::{Ended, Exit, output::print, resources, trust};
use crate::{
    host::Host,
    machine::Machine,
    paths::Paths,
    reconcile::{self, Planned},
};

#[derive(Debug, Args)]
#[command(after_help = "\
The file is JSON: {\"resources\": [{\"id\": …, \"kind\": …, \"after\": […], \"spec\": {…}}]}

Examples:
  mesh-host plan resources.json
  mesh-host plan --exit-code resources.json && echo nothing would change")]
pub(super) struct Plan {
    /// The file of resources; `-` for stdin. Without it: what the next round would do.
    file: Option<PathBuf>,
    /// End with 10 if something would change.
    #[arg(long)]
    exit_code: bool,
    /// For programs.
    #[arg(long)]
    json: bool,
}

impl Plan {
    pub(super) async fn run(self, paths: &Paths) -> Result<Exit, Ended> {
        let declared = self.file.as_deref().map(resources::read).transpose()?;
        let trust = trust(paths)?.map(|(.., trust)| trust);
        let host = Host::open(paths, Machine::real(paths), trust).await?;
        let plan = match &declared {
            Some(declared) => host.plan_carried(declared).await,
            None => host.plan().await,
        };
        if self.json {
            print_json(&plan)?;
        } else {
            print_text(&plan);
        }
        let failing = plan.planned.iter().any(|planned| planned.steps.is_err());
        Ok(match (plan.is_empty(), failing) {
            (false, true) => Exit::Failed,
            (false, false) if self.exit_code => Exit::Changes,
            _ => Exit::Done,
        })
    }
}

fn print_text(plan: &reconcile::Plan) {
    for Planned { origin, id, removal, steps } in &plan.planned {
        print(format_args!("{} {id} ({origin})", if *removal { "-" } else { "+" }));
        match steps {
            Ok(steps) if steps.is_empty() => print("    forget it: nothing of it is left"),
            Ok(steps) => steps.iter().for_each(|step| print(format_args!("    {step}"))),
            Err(why) => print(format_args!("    cannot: {why}")),
        }
    }
    for (origin, id, differs) in &plan.observed {
        print(format_args!("= {id} ({origin}, only observed) is other than declared"));
        for found in differs {
            print(format_args!("    {found}"));
        }
    }
    match plan.planned.len() {
        0 if plan.observed.is_empty() => {
            print(format_args!("no change: all {} resources are as declared", plan.unchanged));
        }
        0 => print(format_args!("no change: {} resources are as declared", plan.unchanged)),
        n => print(format_args!("{n} to change, {} as declared", plan.unchanged)),
    }
}

fn print_json(plan: &reconcile::Plan) -> Result<(), Ended> {
    let planned: Vec<_> = plan
        .planned
        .iter()
        .map(|Planned { origin, id, removal, steps }| {
            let (steps, error) = match steps {
                Ok(steps) => (steps.iter().map(ToString::to_string).collect(), None),
                Err(why) => (Vec::new(), Some(why.to_string())),
            };
            serde_json::json!({ "origin": origin, "id": id, "removal": removal, "steps": steps, "error": error })
        })
        .collect();
    let observed: Vec<_> = plan
        .observed
        .iter()
        .map(|(origin, id, differs)| serde_json::json!({ "origin": origin, "id": id, "differs": differs }))
        .collect();
    let json = serde_json::json!({ "changes": planned, "observed": observed, "unchanged": plan.unchanged });
    let json = serde_json::to_string_pretty(&json);
    print(json.map_err(|error| Ended::new(Exit::Failed, format!("write JSON: {error}")))?);
    Ok(())
}
