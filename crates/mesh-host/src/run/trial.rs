//! The daemon's own upgrade: what it shows while it is on trial, and when it ends so that another program is tried.
//!
//! Decides nothing that [`crate::upgrade`] decides; never touches the machine but through its door.

use std::{rc::Rc, time::Duration};

use tokio::time::Instant;

use crate::{
    failure::Failure,
    ledger,
    machine::program::{Program, own_digest},
    report::LinkState,
    upgrade::{Intention, Proof, Stage, Trial},
};

/// How long it has to prove itself. The kernel ends it a minute later.
const DEADLINE: Duration = Duration::from_mins(5);
/// A trial that could not be begun when the service started (on a full disk) is tried to begin again after so long.
const BEGIN_AGAIN: Duration = Duration::from_mins(10);

/// A program on trial.
#[derive(Debug)]
pub struct OnTrial {
    intention: Intention,
    proof: Proof,
    until: Instant,
    /// Why the last attempt at what is missing failed.
    trouble: String,
}

impl OnTrial {
    /// Of this very process, which was started as the one on trial.
    pub fn of_this_process(program: &dyn Program) -> Result<Self, Failure> {
        let trial = begun(program)?;
        let trial = Self::new(trial.intention, &own_digest()?)?;
        program.is_on_trial();
        Ok(trial)
    }

    fn new(intention: Intention, own: &mesh_ids::Digest) -> Result<Self, Failure> {
        let says = env!("CARGO_PKG_VERSION");
        if intention.digest != *own {
            return Err(Failure::new(format!("this program is {own}, and on trial is {}", intention.digest)));
        }
        if intention.version != says {
            let declared = &intention.version;
            return Err(Failure::new(format!(
                "it says it is version {says}, and was declared as {declared}"
            )));
        }
        if intention.ledger_format < ledger::FORMAT {
            return Err(Failure::new(format!(
                "it writes the ledger in format {}, and the version before it reads format {}: upgrade to a version \
                 between the two first",
                ledger::FORMAT,
                intention.ledger_format
            )));
        }
        let until = Instant::now() + DEADLINE;
        Ok(Self { intention, proof: Proof::default(), until, trouble: String::new() })
    }

    /// When it is given up.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// A round is over.
    pub(super) fn heard_round(&mut self, outcome: Result<(), &Failure>) {
        match outcome {
            Ok(()) => self.proof.round = true,
            Err(why) => self.trouble = why.to_string(),
        }
    }

    /// The connection changed.
    pub(super) fn heard_link(&mut self, state: &LinkState) {
        match state {
            LinkState::Connected { .. } => self.proof.login = true,
            LinkState::Disconnected { error, .. } if !self.proof.login => self.trouble.clone_from(error),
            _ => {}
        }
    }

    /// Whether it has proved itself and is installed now; a failure where it is given up.
    pub(super) fn settle(&mut self, program: &dyn Program, now: Instant) -> Result<bool, Failure> {
        let missing = self.proof.missing(&self.intention);
        if missing.is_none() {
            match program.keep() {
                Ok(()) => {
                    tracing::info!(version = self.intention.version, digest = %self.intention.digest, "proved itself; is installed");
                    return Ok(true);
                }
                Err(why) => self.trouble = why.to_string(),
            }
        }
        if now < self.until {
            return Ok(false);
        }
        let (after, missing) = (humantime::format_duration(DEADLINE), missing.unwrap_or("its installation"));
        let trouble = if self.trouble.is_empty() { "no reason was heard" } else { &self.trouble };
        Err(Failure::new(format!("after {after} it still lacked {missing}: {trouble}")))
    }
}

/// The trial that was begun with this process.
fn begun(program: &dyn Program) -> Result<Trial, Failure> {
    let trial = program.state()?.trial.filter(|trial| matches!(trial.stage, Stage::Begun { .. }));
    trial.ok_or_else(|| {
        Failure::new("no program is on trial here: the service starts one, 'mesh-host run' alone")
    })
}

/// Whether another program waits for the service to start anew.
pub(super) struct Waiting {
    program: Rc<dyn Program>,
    began: Instant,
    /// What waited when this process started already. It could not be begun then.
    at_start: Option<Trial>,
}

impl Waiting {
    pub(super) fn new(program: Rc<dyn Program>) -> Self {
        let at_start = program.state().ok().and_then(|state| state.waiting().cloned());
        Self { program, began: Instant::now(), at_start }
    }

    /// For which program this one has to end.
    pub(super) fn wants_way(&self, now: Instant) -> Option<Intention> {
        let waiting = self.program.state().ok()?.waiting().cloned()?;
        let is_new = self.at_start.as_ref() != Some(&waiting) || now >= self.began + BEGIN_AGAIN;
        is_new.then_some(waiting.intention)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{engine::NoEngine, fake::World};

    fn digest(number: u8) -> mesh_ids::Digest {
        mesh_ids::Digest::of_sha256([number; 32])
    }

    fn intention(login: bool) -> Intention {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Intention { version, digest: digest(1), retry: 0, login, ledger_format: ledger::FORMAT }
    }

    fn connected() -> LinkState {
        LinkState::Connected { since: 1, broker: "b:1".to_owned() }
    }

    /// A machine on which a trial was begun.
    fn machine(login: bool) -> (Rc<World>, Rc<dyn Program>) {
        let world = World::bare();
        let program = world.machine(Rc::new(NoEngine)).program;
        program.intend(&intention(login)).expect("intended");
        program.begin().expect("begun");
        (world, program)
    }

    #[test]
    fn what_is_not_what_was_declared_ends_at_once() {
        let words = |intention: Intention| {
            OnTrial::new(intention, &digest(1)).map(|_| ()).expect_err("refused").to_string()
        };
        assert!(
            words(Intention { digest: digest(2), ..intention(false) }).contains("on trial is sha256:0202")
        );
        assert!(
            words(Intention { version: "9.9.9".to_owned(), ..intention(false) })
                .contains("declared as 9.9.9")
        );
        let older = words(Intention { ledger_format: ledger::FORMAT - 1, ..intention(false) });
        assert!(older.starts_with("it writes the ledger in format"), "{older}");
        assert!(OnTrial::new(intention(false), &digest(1)).is_ok());
    }

    #[test]
    fn a_program_that_nobody_tries_does_not_take_itself_for_one_on_trial() {
        let program = World::bare().machine(Rc::new(NoEngine)).program;
        let why = OnTrial::of_this_process(&*program).expect_err("refused").to_string();
        assert!(why.starts_with("no program is on trial here"), "{why}");
    }

    #[tokio::test]
    async fn it_is_installed_once_a_round_is_over_and_it_logged_in() {
        let (world, program) = machine(true);
        let mut trial = OnTrial::new(intention(true), &digest(1)).expect("a trial");
        let now = Instant::now();
        assert!(!trial.settle(&*program, now).expect("not yet"));
        trial.heard_link(&connected());
        assert!(!trial.settle(&*program, now).expect("not yet"), "a login alone is not enough");
        trial.heard_round(Err(&Failure::new("the ledger is full")));
        assert!(!trial.settle(&*program, now).expect("not yet"), "nor is a round that failed");
        trial.heard_round(Ok(()));
        assert!(trial.settle(&*program, now).expect("kept"));
        assert_eq!(world.program.borrow().installed, digest(1));
        assert!(program.state().expect("remembered").trial.is_none());
    }

    #[tokio::test]
    async fn without_a_login_it_is_given_up_in_words_where_the_one_before_it_had_one() {
        let (world, program) = machine(true);
        let mut trial = OnTrial::new(intention(true), &digest(1)).expect("a trial");
        trial.heard_round(Ok(()));
        let refused =
            LinkState::Disconnected { since: None, error: "the broker refuses the account".to_owned() };
        trial.heard_link(&refused);
        assert!(!trial.settle(&*program, Instant::now()).expect("not yet"));
        let why = trial.settle(&*program, trial.until()).expect_err("given up").to_string();
        assert!(
            why.contains("lacked a login to the broker") && why.ends_with("the broker refuses the account"),
            "{why}"
        );
        assert_eq!(world.program.borrow().installed, digest(0));

        let (_, program) = machine(false);
        let mut trial = OnTrial::new(intention(false), &digest(1)).expect("a trial");
        trial.heard_round(Ok(()));
        assert!(trial.settle(&*program, Instant::now()).expect("kept"), "there was no broker before either");
    }

    #[tokio::test]
    async fn what_cannot_be_installed_is_tried_again_until_the_deadline() {
        let (world, program) = machine(false);
        let mut trial = OnTrial::new(intention(false), &digest(1)).expect("a trial");
        trial.heard_round(Ok(()));
        world.faults.fail_at(1);
        assert!(!trial.settle(&*program, Instant::now()).expect("a full disk may empty itself"));
        world.faults.fail_at(1);
        let why = trial.settle(&*program, trial.until()).expect_err("given up").to_string();
        assert!(why.contains("lacked its installation: "), "{why}");
        assert!(trial.settle(&*program, trial.until()).expect("in time after all"));
    }

    #[tokio::test]
    async fn the_daemon_ends_for_what_is_new_and_not_again_and_again_for_what_could_not_be_begun() {
        let world = World::bare();
        let program = world.machine(Rc::new(NoEngine)).program;
        let waiting = Waiting::new(Rc::clone(&program));
        let now = Instant::now();
        assert!(waiting.wants_way(now).is_none());
        program.intend(&intention(false)).expect("intended");
        assert_eq!(waiting.wants_way(now), Some(intention(false)));
        let waiting = Waiting::new(program);
        assert_eq!(waiting.wants_way(now), None);
        assert_eq!(waiting.wants_way(now + BEGIN_AGAIN + DEADLINE), Some(intention(false)));
    }
}
