//! What an invitation may say.

use std::{collections::BTreeMap, time::Duration};

use mesh_ids::NodeName;

use super::Refusal;

/// No node is called so: on the interface these words stand where the name of a node does.
pub const RESERVED_NAMES: &[&str] = &["invitations", "watch"];
const SHORTEST: Duration = Duration::from_mins(1);
const LONGEST: Duration = Duration::from_hours(7 * 24);
const MOST_LABELS: usize = 32;
const RULE: &str = "at most 32 labels; keys of 1 to 63 letters, digits, '.', '_', '/' and '-'; values of at most 255 bytes \
                    without control characters";

/// Whether a node may be called so, and a token be good for so long and carry these labels.
pub(crate) fn check_invitation(
    node: &NodeName,
    life_time: Duration,
    labels: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    if RESERVED_NAMES.contains(&node.as_str()) {
        return Err(Refusal::Reserved { node: node.clone() });
    }
    if !(SHORTEST..=LONGEST).contains(&life_time) {
        return Err(Refusal::LifeTime { seconds: life_time.as_secs() });
    }
    let key_fits = |key: &str| {
        (1..=63).contains(&key.len())
            && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"._/-".contains(&b))
    };
    let value_fits = |value: &str| value.len() <= 255 && !value.chars().any(char::is_control);
    let mut labels = labels.iter().enumerate();
    match labels.find(|(at, (key, value))| *at >= MOST_LABELS || !key_fits(key) || !value_fits(value)) {
        Some((_, (key, _))) => Err(Refusal::Label { key: key.chars().take(80).collect(), rule: RULE }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_life_time_and_labels_that_do_not_fit_are_refused() {
        let labels = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
        let node = "node-1".parse().unwrap();
        let check =
            |seconds, labels: BTreeMap<_, _>| check_invitation(&node, Duration::from_secs(seconds), &labels);
        assert_eq!(check(60, labels("zone", "a b")), Ok(()));
        assert_eq!(check(604_800, BTreeMap::new()), Ok(()));
        for seconds in [0, 59, 604_801] {
            assert_eq!(check(seconds, BTreeMap::new()), Err(Refusal::LifeTime { seconds }));
        }
        for (key, value) in [("", "a"), ("a b", "a"), ("a", "\n"), ("a", &"x".repeat(256))] {
            assert!(matches!(check(60, labels(key, value)), Err(Refusal::Label { .. })), "{key:?}");
        }
        let many = (0..33).map(|number| (format!("l{number}"), String::new())).collect();
        assert!(matches!(check(60, many), Err(Refusal::Label { .. })));
    }

    #[test]
    fn a_name_that_the_interface_uses_itself_is_refused() {
        let check = |name: &str| check_invitation(&name.parse().unwrap(), SHORTEST, &BTreeMap::new());
        for name in RESERVED_NAMES {
            assert_eq!(check(name), Err(Refusal::Reserved { node: name.parse().unwrap() }));
        }
        assert_eq!(check("watchman"), Ok(()));
    }
}
