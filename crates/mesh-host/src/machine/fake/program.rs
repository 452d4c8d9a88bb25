//! The host's program in memory. The service never starts anew by itself here: a test says so.

use mesh_ids::Digest;
use mesh_wire::kinds::HostSource;

use super::Doors;
use crate::{
    failure::Failure,
    machine::program::{Program, ProgramFound},
    upgrade::{Intention, Next, Start, State},
};

/// The host's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeProgram {
    /// The installed one.
    pub installed: Digest,
    /// The one beside it.
    pub beside: Option<Digest>,
    /// What is remembered.
    pub state: State,
    /// Whether this process is on trial.
    pub on_trial: bool,
    /// Whether it is connected.
    pub connected: bool,
}

impl Default for FakeProgram {
    fn default() -> Self {
        let installed = Digest::of_sha256([0; 32]);
        Self { installed, beside: None, state: State::default(), on_trial: false, connected: false }
    }
}

impl Doors {
    fn change(&self, change: impl FnOnce(State) -> State) {
        let state = std::mem::take(&mut self.0.program.borrow_mut().state);
        self.0.program.borrow_mut().state = change(state);
    }
}

impl Program for Doors {
    fn look(&self, wanted: &Digest) -> Result<ProgramFound, Failure> {
        self.0.faults.operation("look at the program", || {
            let FakeProgram { installed, beside, state, on_trial, connected } =
                self.0.program.borrow().clone();
            let tried = state.trial.as_ref().filter(|_| on_trial);
            let runs = tried.map_or(installed, |trial| trial.intention.digest.clone());
            Ok(ProgramFound { runs, beside: beside.as_ref() == Some(wanted), connected, state })
        })
    }

    fn state(&self) -> Result<State, Failure> {
        // No operation: it is asked for the report, after every round.
        Ok(self.0.program.borrow().state.clone())
    }

    fn install(&self, source: &HostSource, wanted: &Digest) -> Result<(), Failure> {
        self.0.faults.operation("install a program", || match source {
            HostSource::Path(path) if path.contains("missing") => {
                Err(Failure::new(format!("read {path}: there is none")))
            }
            _ => {
                self.0.program.borrow_mut().beside = Some(wanted.clone());
                Ok(())
            }
        })
    }

    fn intend(&self, intention: &Intention) -> Result<(), Failure> {
        self.0.faults.operation("intend a trial", || {
            self.change(|state| state.intend(intention.clone()));
            Ok(())
        })
    }

    fn withdraw(&self) -> Result<(), Failure> {
        self.0.faults.operation("withdraw a trial", || {
            self.change(State::withdraw);
            Ok(())
        })
    }

    fn begin(&self) -> Result<Next, Failure> {
        let mut program = self.0.program.borrow_mut();
        let start = Start { installed: program.installed.clone(), boot: "boot".to_owned(), at_s: 0 };
        let (state, next) = std::mem::take(&mut program.state).start(start);
        program.state = state;
        program.on_trial = next != Next::Serve;
        Ok(next)
    }

    fn told_to_end(&self) -> Result<(), Failure> {
        self.change(State::told_to_end);
        Ok(())
    }

    fn give_up(&self, why: &str) -> Result<(), Failure> {
        self.change(|state| state.give_up(why));
        Ok(())
    }

    fn keep(&self) -> Result<(), Failure> {
        self.0.faults.operation("keep the program on trial", || {
            let mut program = self.0.program.borrow_mut();
            if let Some(trial) = program.state.trial.clone() {
                program.installed = trial.intention.digest;
                program.state = std::mem::take(&mut program.state).keep(&program.installed);
                program.on_trial = false;
            }
            Ok(())
        })
    }

    fn is_on_trial(&self) {
        self.0.program.borrow_mut().on_trial = true;
    }

    fn is_connected(&self, connected: bool) {
        self.0.program.borrow_mut().connected = connected;
    }

    fn forget(&self) -> Result<(), Failure> {
        let mut program = self.0.program.borrow_mut();
        (program.state, program.beside) = (State::default(), None);
        Ok(())
    }
}
