//! The kind `host`: the version of the host itself. Puts the program beside the installed one and has it tried; whether it
//! is kept is decided by the trial ([`crate::upgrade`]). Never changes what runs by itself, and nothing on removal.

use std::borrow::Cow;

use mesh_wire::kinds::HostSpec;

use super::{Claim, Kind, Memory};
use crate::{
    failure::Failure,
    ledger,
    machine::{
        Machine,
        program::{HostStep, ProgramFound},
    },
    step::Step,
    upgrade::{Failed, Intention, short},
};

/// The kind.
#[derive(Debug)]
pub struct Host;

impl Kind for Host {
    type Spec = HostSpec;
    type Observed = ProgramFound;
    type Before = ();

    fn claims(_: &HostSpec) -> Vec<Claim> {
        vec![Claim::new("host", "of this machine")]
    }

    fn subject(_: &HostSpec) -> Cow<'_, str> {
        Cow::Borrowed("the host")
    }

    async fn observe(machine: &Machine, spec: &HostSpec) -> Result<ProgramFound, Failure> {
        machine.program.look(&spec.digest)
    }

    fn before(_: &HostSpec, _: &ProgramFound, _: Option<&()>) {}

    fn plan(spec: &HostSpec, observed: &ProgramFound, _: &Memory<Self>) -> Result<Vec<Step>, Failure> {
        let HostSpec { version, digest, source, retry } = spec;
        let ProgramFound { runs, beside, connected, state } = observed;
        if let Some(trial) = &state.trial {
            let tried = &trial.intention;
            if (&tried.version, &tried.digest, tried.retry) == (version, digest, *retry) {
                // The trial decides: nothing is left to do here.
                return Ok(Vec::new());
            }
            if state.waiting().is_none() {
                let (version, digest) = (&tried.version, short(&tried.digest));
                return Err(Failure::new(format!(
                    "mesh-host {version} ({digest}) is on trial: this one follows when that is over"
                )));
            }
        }
        if runs == digest {
            let withdraw = state.waiting().map(|_| Step::Host(HostStep::Withdraw));
            return Ok(withdraw.into_iter().collect());
        }
        if let Some(Failed { why, retry: failed_at, .. }) = state.failed(digest)
            && retry <= failed_at
        {
            return Err(Failure::new(format!(
                "mesh-host {version} ({}) failed on this machine and is not tried again: {why}; declare another program, \
                 or `retry` as {} or higher",
                short(digest),
                failed_at + 1
            )));
        }
        let install = (!beside).then(|| HostStep::Install {
            version: version.clone(),
            source: source.clone(),
            digest: digest.clone(),
        });
        let intention = Intention {
            version: version.clone(),
            digest: digest.clone(),
            retry: *retry,
            login: *connected,
            ledger_format: ledger::FORMAT,
        };
        Ok(install.into_iter().chain([HostStep::Try(intention)]).map(Step::Host).collect())
    }

    fn remove(spec: &HostSpec, observed: &ProgramFound, (): &()) -> Result<Vec<Step>, Failure> {
        let waits = observed.state.waiting().is_some_and(|trial| trial.intention.digest == spec.digest);
        Ok(waits.then_some(Step::Host(HostStep::Withdraw)).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use mesh_ids::Digest;

    use super::*;
    use crate::{kinds, upgrade::State};

    fn digest(number: u8) -> Digest {
        Digest::of_sha256([number; 32])
    }

    fn spec(number: u8, retry: u64) -> HostSpec {
        let json = serde_json::json!({"version": "0.2.0", "digest": digest(number), "source": "bundle", "retry": retry});
        serde_json::from_value(json).expect("a spec")
    }

    fn found(runs: u8, state: State) -> ProgramFound {
        ProgramFound { runs: digest(runs), beside: false, connected: true, state }
    }

    fn plan(spec: &HostSpec, found: &ProgramFound) -> Result<Vec<String>, String> {
        let memory = kinds::Memory { before: (), applied: None, changed: Vec::new(), reads: String::new() };
        let steps = Host::plan(spec, found, &memory).map_err(|why| why.to_string())?;
        Ok(steps.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn it_is_put_beside_and_tried_and_older_versions_are_as_good_as_newer_ones() {
        let steps = plan(&spec(1, 0), &found(0, State::default())).expect("a plan");
        assert_eq!(
            steps,
            [
                "put mesh-host 0.2.0 (sha256:010101010101) beside the one that runs, from the bundle",
                "restart as mesh-host 0.2.0 (sha256:010101010101), on trial: kept once it read the ledger, passed a round \
                 and logged in afresh"
            ]
        );
        let there = ProgramFound { beside: true, connected: false, ..found(0, State::default()) };
        let steps = plan(&spec(1, 0), &there).expect("a plan");
        assert_eq!(steps.len(), 1, "what is there is not copied again");
        assert!(steps[0].ends_with("read the ledger and passed a round"), "{steps:?}");
        assert_eq!(plan(&spec(0, 0), &found(0, State::default())), Ok(Vec::new()));
    }

    fn tried(number: u8, begun: bool) -> State {
        let intention = Intention {
            version: "0.2.0".to_owned(),
            digest: digest(number),
            retry: 0,
            login: true,
            ledger_format: 1,
        };
        let state = State::default().intend(intention);
        let start = crate::upgrade::Start { installed: digest(0), boot: "a".to_owned(), at_s: 0 };
        if begun { state.start(start).0 } else { state }
    }

    #[test]
    fn while_one_is_tried_there_is_nothing_to_do_and_another_one_has_to_wait() {
        for begun in [false, true] {
            assert_eq!(plan(&spec(1, 0), &found(0, tried(1, begun))), Ok(Vec::new()));
        }
        let why = plan(&spec(2, 0), &found(1, tried(1, true))).expect_err("it waits");
        assert!(why.starts_with("mesh-host 0.2.0 (sha256:010101010101) is on trial"), "{why}");
        assert_eq!(
            plan(&spec(2, 0), &found(0, tried(1, false))).expect("a plan").len(),
            2,
            "not begun, it is replaced"
        );
        assert_eq!(
            plan(&spec(0, 0), &found(0, tried(1, false))),
            Ok(vec!["try no other mesh-host".to_owned()])
        );
    }

    #[test]
    fn one_that_failed_is_refused_in_words_until_it_is_declared_again_on_purpose() {
        let state = tried(1, true).give_up("it cannot read the ledger");
        let why = plan(&spec(1, 0), &found(0, state.clone())).expect_err("refused");
        assert!(why.contains("is not tried again: it cannot read the ledger; declare another"), "{why}");
        assert!(why.ends_with("`retry` as 1 or higher"), "{why}");
        assert_eq!(plan(&spec(1, 1), &found(0, state.clone())).expect("a plan").len(), 2);
        assert_eq!(plan(&spec(2, 0), &found(0, state.clone())).expect("a plan").len(), 2);
        assert_eq!(plan(&spec(1, 0), &found(1, state)), Ok(Vec::new()), "a person installed it");
    }
}
