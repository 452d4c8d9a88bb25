//! `mesh-host join`: this machine becomes a node.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::time::Duration;

use clap::Args;
use mesh_wire::JoinToken;
use tokio::time::{Instant, sleep};

use super::{Ended, Exit, output::print};
use crate::{
    failure::Failure,
    join::{self, DEADLINE, JoinError, Joined},
    link_file,
    machine::{Machine, facts},
    paths::Paths,
    report::LinkState,
    service,
    status::Status,
};

/// A token has less than 2 KiB; what is longer is no token.
const TOKEN_MAX_BYTES: u64 = 64 * 1024;
/// How long the started host may take to connect: two attempts.
const CONNECT_DEADLINE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
#[command(after_help = "\
The token comes from 'mesh node invite NAME'. Whoever reads it can join in this machine's place until it is used, and
an argument can be read by every user of this machine while the command runs: hand it over on stdin.

Run again with the same token it does what is left to do, and nothing otherwise.

Examples:
  mesh-host join                    paste the token, press Enter
  mesh-host join < token            from a file
  mesh-host join mjt1.…             as an argument")]
pub(super) struct Join {
    /// The token; without it, or as `-`, it is read from stdin.
    token: Option<String>,
    /// Leave the service as it is: only join.
    #[arg(long)]
    no_service: bool,
}

impl Join {
    pub(super) async fn run(self, paths: &Paths) -> Result<Exit, Ended> {
        let token = self.read_token()?;
        if let Some(missing) = link_file::missing(paths)?.filter(|missing| missing.was_a_node) {
            return Err(Ended::new(Exit::Refused, missing.why));
        }
        let machine = Machine::real(paths);
        let node = join::Machine {
            paths,
            facts: facts::facts(paths.root(), machine.engine.version().await),
            host_version: env!("CARGO_PKG_VERSION"),
            now: machine.clock.now(),
            deadline: DEADLINE,
        };
        match join::join(&token, &node, &mut |doing| say(doing)).await? {
            Joined::Now { node, mesh, broker } => {
                print(format_args!("joined mesh {mesh} as {node} through {broker}"));
            }
            Joined::Before { node } => {
                print(format_args!("this machine joined as {node} with this token before"));
            }
        }
        if self.no_service {
            return Ok(Exit::Done);
        }
        say("starting mesh-host.service");
        service::install(&machine).await.map_err(|failure| {
            let what = "this machine is a node now, but its service does not run; put that right and join again with \
                        the same token";
            failure.during(what)
        })?;
        let broker = connected(&machine).await?;
        print(format_args!("connected to {broker}"));
        Ok(Exit::Done)
    }

    fn read_token(&self) -> Result<JoinToken, Ended> {
        let text = match self.token.as_deref() {
            Some(argument) if argument != "-" => {
                say(
                    "warning: other users of this machine could read the token from the arguments; stdin is safer",
                );
                argument.to_owned()
            }
            _ => from_stdin()?,
        };
        text.parse().map_err(|error: mesh_wire::InvalidToken| Ended::new(Exit::Usage, error.to_string()))
    }
}

fn from_stdin() -> Result<String, Ended> {
    let unread = |error| Ended::from(Failure::of("read the token from stdin", &error));
    let mut text = String::new();
    if std::io::stdin().is_terminal() {
        say("paste the token and press Enter:");
        std::io::stdin().read_line(&mut text).map_err(unread)?;
    } else {
        std::io::stdin().take(TOKEN_MAX_BYTES).read_to_string(&mut text).map_err(unread)?;
    }
    Ok(text)
}

/// What is being done; results alone go to stdout.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// Waits until the host that was started says that it is connected, and says to which broker.
pub(super) async fn connected(machine: &Machine) -> Result<String, Ended> {
    let end = Instant::now() + CONNECT_DEADLINE;
    let mut last = "it has said nothing yet".to_owned();
    loop {
        // Right after the start the file may still be an earlier host's: one that had not joined, or its last words.
        match Status::read(machine)?.map(|status| status.link) {
            Some(LinkState::Connected { broker, .. }) => return Ok(broker),
            Some(LinkState::Disconnected { error, .. }) if !error.is_empty() => last = error,
            _ => {}
        }
        if Instant::now() >= end {
            let why = format!(
                "this machine is a node now and its service runs, but it is not connected after {} s: {last}; it goes on \
                 trying, see 'mesh-host status' and 'journalctl -u mesh-host'",
                CONNECT_DEADLINE.as_secs()
            );
            return Err(Ended::new(Exit::Unreachable, why));
        }
        sleep(LOOK_AGAIN).await;
    }
}

impl From<JoinError> for Ended {
    fn from(error: JoinError) -> Self {
        let exit = match error.exit_code() {
            3 => Exit::Refused,
            4 => Exit::Unreachable,
            _ => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}
