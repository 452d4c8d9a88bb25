//! The commands: reads arguments, prints results on stdout and everything else on stderr. One file a command; decides
//! nothing.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 not reachable, 5 not found; `plan --exit-code` adds 10, `run` 30.

mod apply;
mod bootstrap;
mod doctor;
mod join;
mod leave;
mod output;
mod plan;
mod resources;
mod run;
mod status;
mod version;

use std::{io::IsTerminal as _, process::ExitCode};

use clap::{CommandFactory as _, Parser, Subcommand};
pub use output::{Ended, Exit};
use tracing_subscriber::{
    Layer as _, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::{
    failure::Failure,
    intake::Trust,
    keys::NodeKeys,
    link_file::{self, LinkFile},
    paths::Paths,
};

/// Applies what was declared for this machine, repairs drift, and states what is true.
#[derive(Debug, Parser)]
#[command(name = "mesh-host", version, after_help = EXAMPLES, max_term_width = 110)]
struct Arguments {
    /// What to log, e.g. `info`, `debug`, `mesh_host=trace`; what `run` does, and errors of other commands, where not given.
    #[arg(long, env = "MESH_LOG", global = true, value_name = "FILTER")]
    log: Option<String>,
    /// Another root than `/` for everything the host reads and writes. For tests.
    #[arg(long, env = "MESH_HOST_ROOT", default_value = "/", global = true, hide = true)]
    root: std::path::PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Keep this machine as declared (the systemd unit runs this).
    Run(run::Run),
    /// Say what this machine is told, what it has, and whether it is connected.
    Status(status::Status),
    /// Say what is wrong with this machine, and what a person can do about it; touch nothing.
    Doctor(doctor::Doctor),
    /// Say what applying a file of resources would do; touch nothing.
    Plan(plan::Plan),
    /// Apply a file of resources on a machine that has joined no mesh.
    Apply(apply::Apply),
    /// Raise a mesh on this machine, which becomes its first node.
    Bootstrap(bootstrap::Bootstrap),
    /// Make this machine a node of a mesh, by a token.
    Join(join::Join),
    /// Take everything assigned off this machine, put back what stood there before, and forget the mesh.
    Leave(leave::Leave),
    /// Say which version this is.
    Version(version::Version),
    /// Print a completion script for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

const EXAMPLES: &str = "\
Examples:
  mesh-host plan resources.json            what would change
  mesh-host apply --local resources.json   make it so (a machine that has joined no mesh)
  mesh-host bootstrap --name node-1        raise a mesh
  mesh-host join < token                   become a node
  mesh-host status --json                  for programs
  mesh-host doctor                         what is wrong, and what to do
  mesh-host leave                          forget the mesh and undo what it assigned";

/// Runs the command of this process's arguments.
pub fn main() -> ExitCode {
    let Arguments { log, root, command } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS };
        }
    };
    let usual = if matches!(command, Command::Run(_)) { "info,lapin=off" } else { "error,lapin=off" };
    let filter = match log.as_deref().unwrap_or(usual).parse::<Targets>() {
        Ok(filter) => filter,
        Err(error) => return output::end(Err(Ended::new(Exit::Usage, format!("read --log: {error}")))),
    };
    let to_stderr = tracing_subscriber::fmt::layer().compact().with_writer(std::io::stderr);
    // systemd's journal has the time already.
    let to_stderr = if std::env::var_os("JOURNAL_STREAM").is_some() {
        to_stderr.without_time().with_ansi(false).with_filter(filter).boxed()
    } else {
        to_stderr.with_ansi(std::io::stderr().is_terminal()).with_filter(filter).boxed()
    };
    tracing_subscriber::registry().with(to_stderr).init();
    let paths = Paths::under(root);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return output::end(Err(Failure::of("start", &error).into())),
    };
    output::end(runtime.block_on(perform(command, &paths)))
}

async fn perform(command: Command, paths: &Paths) -> Result<Exit, Ended> {
    match command {
        Command::Run(run) => run.run(paths).await,
        Command::Status(status) => status.run(paths),
        Command::Doctor(doctor) => doctor.run(paths).await,
        Command::Plan(plan) => plan.run(paths).await,
        Command::Apply(apply) => apply.run(paths).await,
        Command::Bootstrap(bootstrap) => bootstrap.run(paths).await,
        Command::Join(join) => join.run(paths).await,
        Command::Leave(leave) => leave.run(paths).await,
        Command::Version(version) => version.run(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "mesh-host", &mut script);
            // Who reads only its beginning has what was wanted.
            let _ = std::io::Write::write_all(&mut std::io::stdout(), &script);
            Ok(Exit::Done)
        }
    }
}

/// Whom this machine follows; `None` where it has joined no mesh. One that joined and no longer knows which is neither.
fn trust(paths: &Paths) -> Result<Option<(LinkFile, NodeKeys, Trust)>, Failure> {
    let Some(link) = LinkFile::read(paths)? else {
        return match link_file::missing(paths)? {
            Some(missing) if missing.was_a_node => Err(Failure::new(missing.why)),
            _ => Ok(None),
        };
    };
    let keys = NodeKeys::read(paths)?.ok_or_else(|| {
        Failure::new("this machine has joined a mesh, but its keys are gone: leave and join again")
    })?;
    let trust = link.trust(&keys)?;
    Ok(Some((link, keys, trust)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
