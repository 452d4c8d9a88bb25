//! The host's own upgrade, as a state and what happens to it. Pure: [`crate::machine::program`] keeps the state and acts.
//!
//! The program that is *installed* is always one that works. Another one is first put beside it, then tried: whenever
//! the service starts, the installed program starts, counts the attempt durably and becomes the other one; that one is
//! *on trial* until it has proved itself, and only then is installed in the old one's place. Whatever becomes of it before,
//! the next start is the installed program's, which remembers that the other one failed. No time of day is in this: a
//! clock that steps changes nothing.

#[cfg(test)]
mod tests;

use mesh_ids::Digest;
use serde::{Deserialize, Serialize};

/// How often a program is begun until it is given up: more than once only where it was told to end, or the machine went
/// down under it.
pub const MOST_ATTEMPTS: u32 = 3;
/// How many failed programs are remembered; the oldest are forgotten first.
const MOST_FAILED: usize = 16;
/// How much of a reason is kept.
const REASON_BYTES: usize = 600;

/// Everything that is remembered of upgrades. Kept in a file of its own that older and newer hosts read: members are only
/// ever added, and none of them changes its meaning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The program that is to be tried, or is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// The programs that failed on this machine, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Failed>,
}

/// A program that is to prove itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// What was declared.
    #[serde(flatten)]
    pub intention: Intention,
    /// How far it is.
    pub stage: Stage,
}

/// What a trial was declared to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intention {
    /// The version it is to say.
    pub version: String,
    /// The SHA-256 of the program.
    pub digest: Digest,
    /// Tried although it failed before, where this is higher than it was then.
    #[serde(default)]
    pub retry: u64,
    /// Whether it has to log in to the broker: the installed program was connected when the trial was intended.
    pub login: bool,
    /// The newest format of the ledger that the installed program reads: no newer one is written until the trial is over.
    pub ledger_format: u32,
}

/// How far a trial is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It begins when the service starts next.
    Waiting {
        /// How often it was begun before, and told to end.
        attempts: u32,
    },
    /// It was begun, and nothing was heard of it since.
    Begun {
        /// How often, this time included.
        attempts: u32,
        /// The kernel's name of the boot in which it was begun.
        boot: String,
        /// How long the machine had been up then.
        at_s: u64,
    },
}

/// A program that failed on this machine. It is not tried again by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The version it was declared to have.
    pub version: String,
    /// The SHA-256 of the program.
    pub digest: Digest,
    /// What was declared to be its `retry`.
    #[serde(default)]
    pub retry: u64,
    /// Why, for a person.
    pub why: String,
}

/// Where and when the service starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The SHA-256 of the installed program.
    pub installed: Digest,
    /// The kernel's name of this boot.
    pub boot: String,
    /// How long the machine has been up.
    pub at_s: u64,
}

/// What the installed program does when the service starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// It is the host itself.
    Serve,
    /// It becomes this program.
    Try(Digest),
}

impl State {
    /// The trial that begins when the service starts next.
    pub fn waiting(&self) -> Option<&Trial> {
        self.trial.as_ref().filter(|trial| matches!(trial.stage, Stage::Waiting { .. }))
    }

    /// How this program failed before, if it did.
    pub fn failed(&self, digest: &Digest) -> Option<&Failed> {
        self.failed.iter().find(|failed| failed.digest == *digest)
    }

    /// A program is to be tried. One that failed is not, without a higher `retry`; nor is any while another one is being
    /// tried.
    #[must_use]
    pub fn intend(mut self, intention: Intention) -> Self {
        let begun = self.trial.is_some() && self.waiting().is_none();
        let failed = self.failed(&intention.digest).is_some_and(|failed| failed.retry >= intention.retry);
        if !begun && !failed {
            self.trial = Some(Trial { intention, stage: Stage::Waiting { attempts: 0 } });
        }
        self
    }

    /// It is no longer declared. One that was begun goes on.
    #[must_use]
    pub fn withdraw(mut self) -> Self {
        if self.waiting().is_some() {
            self.trial = None;
        }
        self
    }

    /// The service starts, and with it the installed program.
    pub fn start(mut self, start: Start) -> (Self, Next) {
        let Some(Trial { intention, stage }) = self.trial.take() else { return (self, Next::Serve) };
        if intention.digest == start.installed {
            // It had proved itself and was installed; or a person installed it.
            return (self.keep(&intention.digest), Next::Serve);
        }
        let attempts = match stage {
            Stage::Begun { boot, at_s, .. } if boot == start.boot => {
                let after_s = start.at_s.saturating_sub(at_s);
                let why = format!(
                    "it ended about {after_s} s after its start and had not proved itself: it crashed, hung or was \
                     killed ('journalctl -u mesh-host' has its last words)"
                );
                return (self.fail(intention, &why), Next::Serve);
            }
            Stage::Waiting { attempts } | Stage::Begun { attempts, .. } => attempts,
        };
        if attempts >= MOST_ATTEMPTS {
            let why = format!(
                "it was begun {attempts} times, and each time it was told to end, or the machine went down, before it \
                 had proved itself"
            );
            return (self.fail(intention, &why), Next::Serve);
        }
        let digest = intention.digest.clone();
        let stage = Stage::Begun { attempts: attempts + 1, boot: start.boot, at_s: start.at_s };
        self.trial = Some(Trial { intention, stage });
        (self, Next::Try(digest))
    }

    /// The program on trial was told to end: that says nothing of it.
    #[must_use]
    pub fn told_to_end(mut self) -> Self {
        if let Some(trial) = &mut self.trial
            && let Stage::Begun { attempts, .. } = trial.stage
        {
            trial.stage = Stage::Waiting { attempts };
        }
        self
    }

    /// The program on trial failed, for this reason.
    #[must_use]
    pub fn give_up(mut self, why: &str) -> Self {
        match self.trial.take() {
            Some(trial) => self.fail(trial.intention, why),
            None => self,
        }
    }

    /// The program on trial is installed.
    #[must_use]
    pub fn keep(mut self, digest: &Digest) -> Self {
        self.failed.retain(|failed| failed.digest != *digest);
        self.trial = self.trial.filter(|trial| trial.intention.digest != *digest);
        self
    }

    fn fail(mut self, intention: Intention, why: &str) -> Self {
        let Intention { version, digest, retry, .. } = intention;
        self.failed.retain(|failed| failed.digest != digest);
        let why = why[..why.floor_char_boundary(REASON_BYTES)].to_owned();
        self.failed.push(Failed { version, digest, retry, why });
        let surplus = self.failed.len().saturating_sub(MOST_FAILED);
        self.failed.drain(..surplus);
        self
    }
}

/// What a program on trial has shown of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Proof {
    /// One whole round: it read the ledger, looked at every resource and wrote what came of it.
    pub round: bool,
    /// It logged in to the broker.
    pub login: bool,
}

impl Proof {
    /// What is still missing; nothing where it has proved itself.
    pub fn missing(self, intention: &Intention) -> Option<&'static str> {
        if !self.round {
            Some("one whole round")
        } else if intention.login && !self.login {
            Some("a login to the broker, to which the version before it was connected")
        } else {
            None
        }
    }
}

/// A digest as a person compares it.
pub fn short(digest: &Digest) -> &str {
    digest.as_str().get(.."sha256:".len() + 12).unwrap_or(digest.as_str())
}
