//! Any events in any order: what is tried, how often, and what is remembered.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn digest(number: u8) -> Digest {
    Digest::of_sha256([number; 32])
}

fn intention(number: u8, retry: u64) -> Intention {
    Intention { version: "0.2.0".to_owned(), digest: digest(number), retry, login: false, ledger_format: 1 }
}

fn start(state: State, installed: u8, boot: &str) -> (State, Next) {
    state.start(Start { installed: digest(installed), boot: boot.to_owned(), at_s: 10 })
}

#[test]
fn what_ends_by_itself_is_tried_once_and_told_in_words() {
    let (state, next) = start(State::default().intend(intention(1, 0)), 0, "a");
    assert_eq!(next, Next::Try(digest(1)));
    let end = Start { installed: digest(0), boot: "a".to_owned(), at_s: 35 };
    let (state, next) = state.start(end);
    assert_eq!((next, &state.trial), (Next::Serve, &None));
    let why = &state.failed(&digest(1)).expect("it failed").why;
    assert!(why.starts_with("it ended about 25 s after its start"), "{why}");
    assert_eq!(state.clone().intend(intention(1, 0)), state, "never again by itself");
    let (_, next) = start(state.intend(intention(1, 1)), 0, "a");
    assert_eq!(next, Next::Try(digest(1)), "but where it is declared so");
}

#[test]
fn a_machine_that_goes_down_or_a_person_who_restarts_says_nothing_of_it_three_times() {
    let mut state = State::default().intend(intention(1, 0));
    for (boot, told) in [("a", true), ("a", false), ("b", true)] {
        let (begun, next) = start(state, 0, boot);
        assert_eq!(next, Next::Try(digest(1)), "{boot}");
        state = if told { begun.told_to_end() } else { begun };
    }
    let (state, next) = start(state, 0, "c");
    assert_eq!(next, Next::Serve);
    assert!(state.failed(&digest(1)).expect("it failed").why.starts_with("it was begun 3 times"));
}

#[test]
fn what_is_installed_is_kept_however_it_came_there() {
    let (begun, _) = start(State::default().intend(intention(1, 0)), 0, "a");
    for boot in ["a", "b"] {
        assert_eq!(start(begun.clone(), 1, boot), (State::default(), Next::Serve));
    }
}

#[test]
fn it_has_to_log_in_only_where_the_one_before_it_was() {
    let with = |login| Intention { login, ..intention(1, 0) };
    let proof = |round, login| Proof { round, login };
    assert_eq!(proof(true, false).missing(&with(false)), None);
    assert!(proof(true, false).missing(&with(true)).is_some_and(|what| what.contains("login")));
    assert!(proof(false, true).missing(&with(true)).is_some_and(|what| what.contains("round")));
    assert_eq!(proof(true, true).missing(&with(true)), None);
}

#[test]
fn its_file_stays_readable() {
    let old = r#"{"trial":{"version":"0.2.0","digest":"sha256:0101010101010101010101010101010101010101010101010101010101010101",
        "login":true,"ledger_format":1,"stage":{"begun":{"attempts":1,"boot":"a","at_s":10}},"newer":1},
        "failed":[{"version":"0.3.0","digest":"sha256:0202020202020202020202020202020202020202020202020202020202020202","why":"x"}]}"#;
    let state: State = serde_json::from_str(old).expect("a released form");
    assert_eq!(
        state.trial.expect("a trial").stage,
        Stage::Begun { attempts: 1, boot: "a".to_owned(), at_s: 10 }
    );
    assert_eq!(state.failed[0].retry, 0);
}

#[derive(Debug, Clone)]
enum Event {
    Intend {
        number: u8,
        retry: u64,
    },
    Withdraw,
    Start {
        boots: bool,
    },
    Told,
    GivenUp,
    Kept,
    /// A person installs another program.
    Replaced(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0u8..4, 0u64..3).prop_map(|(number, retry)| Event::Intend { number, retry }),
        1 => Just(Event::Withdraw),
        6 => any::<bool>().prop_map(|boots| Event::Start { boots }),
        2 => Just(Event::Told),
        1 => Just(Event::GivenUp),
        1 => Just(Event::Kept),
        1 => (0u8..4).prop_map(Event::Replaced),
    ]
}

proptest! {
    #[test]
    fn nothing_is_tried_that_was_not_intended_failed_before_or_was_tried_enough(
        events in proptest::collection::vec(event(), 0..60),
    ) {
        let (mut state, mut installed, mut boot) = (State::default(), 0u8, 0u32);
        // The program that runs, where it is on trial; how often the present intention was begun; in which boots.
        let (mut on_trial, mut begun, mut untold): (Option<Digest>, u32, Vec<u32>) = (None, 0, Vec::new());
        let mut failed: BTreeMap<Digest, u64> = BTreeMap::new();
        for event in events {
            match event {
                Event::Intend { number, retry } => {
                    let before = state.trial.clone();
                    state = state.intend(intention(number, retry));
                    if on_trial.is_some() {
                        prop_assert_eq!(&state.trial, &before, "the one that is tried goes on");
                    }
                    let is_new = state.trial.as_ref().is_some_and(|t| t.stage == Stage::Waiting { attempts: 0 });
                    if is_new && state.trial != before {
                        (begun, untold) = (0, Vec::new());
                        prop_assert!(failed.get(&digest(number)).is_none_or(|at| *at < retry), "it failed");
                    }
                }
                Event::Withdraw => state = state.withdraw(),
                Event::Start { boots } => {
                    boot += u32::from(boots);
                    let start = Start { installed: digest(installed), boot: boot.to_string(), at_s: 1 };
                    let (after, next) = state.start(start);
                    state = after;
                    on_trial = None;
                    if let Next::Try(tried) = next {
                        let trial = state.trial.as_ref().expect("it is remembered before it is tried");
                        prop_assert_eq!(&trial.intention.digest, &tried);
                        let counted = matches!(&trial.stage, Stage::Begun { boot: at, .. } if *at == boot.to_string());
                        prop_assert!(counted, "its attempt is counted first");
                        prop_assert!(tried != digest(installed));
                        prop_assert!(failed.get(&tried).is_none_or(|at| *at < trial.intention.retry));
                        prop_assert!(!untold.contains(&boot), "it ended by itself in this boot");
                        begun += 1;
                        prop_assert!(begun <= MOST_ATTEMPTS);
                        untold.push(boot);
                        on_trial = Some(tried);
                    } else {
                        prop_assert!(state.trial.is_none(), "nothing is left undecided: {:?}", state.trial);
                    }
                }
                Event::Told => if on_trial.take().is_some() {
                    state = state.told_to_end();
                    untold.pop();
                },
                Event::GivenUp => if on_trial.take().is_some() {
                    state = state.give_up("a reason");
                    prop_assert!(state.trial.is_none());
                },
                Event::Kept => if let Some(kept) = on_trial.take() {
                    installed = (0..4).find(|number| digest(*number) == kept).expect("one of them");
                    state = state.keep(&kept);
                    prop_assert!(state.trial.is_none() && state.failed(&kept).is_none());
                },
                Event::Replaced(number) => if on_trial.is_none() { installed = number },
            }
            failed = state.failed.iter().map(|failed| (failed.digest.clone(), failed.retry)).collect();
            prop_assert!(failed.len() == state.failed.len() && state.failed.len() <= MOST_FAILED);
            let json = serde_json::to_vec(&state).expect("JSON");
            prop_assert_eq!(&serde_json::from_slice::<State>(&json).expect("the same"), &state);
        }
    }
}
