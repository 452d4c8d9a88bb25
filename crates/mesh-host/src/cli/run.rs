//! `mesh-host run`: the daemon. Before it is one, it makes way for a program that is to be tried in its place.

use std::rc::Rc;

use clap::Args;

use super::{Ended, Exit, trust};
use crate::{
    failure::Failure,
    host::Host,
    intake::Trust,
    ledger::Lock,
    link_file,
    machine::{
        Machine,
        program::{Program as _, RealProgram, launch},
    },
    paths::Paths,
    report::{self, LinkState, UplinkEnd},
    run::{self, OnTrial},
    upgrade::Next,
    uplink::Uplink,
};

#[derive(Debug, Args)]
pub(super) struct Run {
    /// This program is on trial. The installed one says so when it becomes this one.
    #[arg(long, hide = true)]
    on_trial: bool,
}

impl Run {
    pub(super) async fn run(self, paths: &Paths) -> Result<Exit, Ended> {
        run::end_on_panic();
        let program = Rc::new(RealProgram::new(paths));
        if !self.on_trial {
            make_way(paths, &program).await?;
            return serve(paths, program, None).await.map(|()| Exit::Done);
        }
        let outcome = match OnTrial::of_this_process(&*program) {
            Ok(trial) => serve(paths, Rc::clone(&program), Some(trial)).await,
            Err(why) => Err(why.into()),
        };
        if let Err(Ended { why, .. }) = &outcome
            && let Err(unwritten) = program.give_up(why)
        {
            // The installed program is told by the end of this one, too.
            tracing::warn!(why = %unwritten, "it is not remembered why this program failed");
        }
        // Whatever is wrong: the installed program has to be started, so never with the code to stay down.
        outcome.map(|()| Exit::Done).map_err(|ended| Ended::new(Exit::Failed, ended.why))
    }
}

/// Becomes the program that is to be tried, where there is one, it was not tried before, and its attempt is on the disk.
/// In every other case this program serves on, also where nothing can be read or written: nobody else would. Fails only
/// where it could not become the other one: half of that is done then, so that it has to be started anew.
async fn make_way(paths: &Paths, program: &RealProgram) -> Result<(), Failure> {
    let decided = async {
        let before = program.state()?;
        if before.trial.is_none() {
            return Ok(Next::Serve);
        }
        let lock = Lock::new(&paths.lock())?;
        let _held = lock.hold().await?;
        let next = program.begin()?;
        let after = program.state()?;
        for failed in after.failed.iter().filter(|failed| !before.failed.contains(failed)) {
            tracing::error!(version = failed.version, digest = %failed.digest, why = failed.why, "the version on trial failed; the one before it serves on");
        }
        Ok::<Next, Failure>(next)
    };
    match decided.await {
        Ok(Next::Serve) => Ok(()),
        Ok(Next::Try(digest)) => {
            tracing::info!(%digest, "makes way for another version, on trial");
            let why = launch::become_program(&program.beside(&digest), std::env::args_os().skip(1));
            tracing::error!(%digest, %why, "the version on trial failed; the one before it serves on");
            if let Err(unwritten) = program.give_up(&why.to_string()) {
                // The attempt is: the next start takes it for failed.
                tracing::error!(why = %unwritten, "that reason is not remembered");
            }
            Err(Failure::new(
                "it could not make way for another version; it serves on when it is started anew",
            ))
        }
        Err(why) => {
            tracing::error!(%why, "no other version is tried");
            Ok(())
        }
    }
}

async fn serve(paths: &Paths, program: Rc<RealProgram>, trial: Option<OnTrial>) -> Result<(), Ended> {
    let missing = link_file::missing(paths)?;
    if let Some(missing) = missing.as_ref().filter(|missing| !missing.carries) {
        // There is nothing to keep that this machine could still be sure of.
        return Err(Ended::new(Exit::StaysDown, missing.why.clone()));
    }
    let (host_end, uplink_end) = report::channel();
    let linked = match missing {
        Some(missing) => Err(Failure::new(missing.why)),
        None => link(paths, uplink_end),
    };
    let (uplink, trust, state) = match linked {
        Ok(Some((uplink, trust))) => {
            let state = LinkState::Disconnected { since: None, error: "not tried yet".to_owned() };
            (Some(uplink), Some(trust), state)
        }
        Ok(None) => (None, None, LinkState::NotJoined),
        // What the machine carries is kept all the same, and what was assigned is left as it is.
        Err(why) => {
            tracing::error!(%why, "runs without its mesh");
            (None, None, LinkState::Disconnected { since: None, error: why.to_string() })
        }
    };
    let machine = Machine { program, ..Machine::real(paths) };
    let host = Host::open(paths, machine.clone(), trust).await?;
    if trial.is_some() {
        host.refuse_unreadable("it does not take the place of the version before it")?;
    }
    run::run(paths, machine, host, run::Ends { host: host_end, uplink, state, trial }).await?;
    Ok(())
}

fn link(paths: &Paths, end: UplinkEnd) -> Result<Option<(Uplink, Trust)>, Failure> {
    let Some((link, keys, trust)) = trust(paths)? else { return Ok(None) };
    Ok(Some((Uplink::new(&link, &keys, end)?, trust)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Folder, Ledger, Record};

    #[tokio::test]
    async fn a_node_that_lost_its_link_file_stops_and_says_what_to_do() {
        let root = tempfile::tempdir().expect("a folder");
        let paths = Paths::under(root.path());
        let mut ledger =
            Ledger::open(Box::new(Folder::new(paths.ledger(), paths.ledger_note()))).expect("a ledger");
        ledger.write([Record::Accepted { frame: "{}".to_owned(), issued: 1 }]).expect("written");
        ledger.commit().expect("durable");
        let program = Rc::new(RealProgram::new(&paths));
        let ended = serve(&paths, program, None).await.expect_err("it does not run");
        // The unit names this code, so that systemd does not start it again and again.
        assert_eq!(ended.exit as u8, 30);
        assert!(crate::service::TEXT.contains("RestartPreventExitStatus=30\n"));
        assert!(
            ended.why.contains("link.json is missing") && ended.why.contains("mesh-host leave"),
            "{}",
            ended.why
        );
        // Nor is it taken for a machine that nobody declares anything for.
        assert!(trust(&paths).is_err());
    }
}
