//! Calendar events as systemd.time(7) has them, as far as they can be told right from wrong without the machine: whether
//! a time zone is known there, for example, cannot.
//!
//! Everything that passes here is taken by systemd; a few spellings that it takes too are not: they mean what a plainer
//! one means.

/// The words for common events.
const WORDS: [&str; 9] =
    ["minutely", "hourly", "daily", "monthly", "weekly", "yearly", "annually", "quarterly", "semiannually"];
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
/// The longest event, in bytes.
const LONGEST: usize = 500;

/// What is wrong with a calendar event.
pub(super) fn check(event: &str) -> Result<(), String> {
    let wrong = |reason: &str| {
        let shown: String = event.chars().take(100).collect();
        Err(format!("{shown:?} is no calendar event: {reason} (such as daily, or Mon..Fri *-*-* 08:30:00)"))
    };
    if event.is_empty() || event.len() > LONGEST || !event.is_ascii() || event.trim() != event {
        return wrong("it is empty, too long, or begins or ends with a space");
    }
    let mut parts: Vec<&str> = event.split(' ').collect();
    if parts.len() > 1 && parts.last().is_some_and(|last| is_zone(last)) {
        parts.pop();
    }
    if let [word] = parts.as_slice()
        && WORDS.contains(word)
    {
        return Ok(());
    }
    let mut parts = parts.into_iter().peekable();
    let mut read = |is: fn(&str) -> bool| parts.next_if(|part| is(part)).is_some();
    let found = [read(are_days), read(is_date), read(is_time)];
    if found == [false; 3] {
        return wrong("expected days of the week, a date, or a time");
    }
    match parts.next() {
        None => Ok(()),
        Some(_) => wrong("expected days of the week, then a date, then a time, then a time zone"),
    }
}

/// `UTC`, or a name of the time zone database: no word for an event, no day, date or time looks like it.
fn is_zone(part: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_+-".contains(c);
    let name = |part: &str| part.starts_with(|c: char| c.is_ascii_uppercase()) && part.chars().all(allowed);
    part == "UTC" || (part.contains('/') && part.split('/').all(name))
}

fn are_days(part: &str) -> bool {
    let day = |name: &str| {
        let name = name.to_ascii_lowercase();
        DAYS.iter().position(|day| *day == name || day[..3] == name)
    };
    part.split(',').all(|days| match days.split_once("..") {
        Some((first, last)) => day(first).zip(day(last)).is_some_and(|(first, last)| first < last),
        None => day(days).is_some(),
    })
}

/// `[YEAR-]MONTH-DAY`, or with `~` before the day: counted from the end of the month.
fn is_date(part: &str) -> bool {
    let (front, day, high) = match part.split_once('~') {
        Some((front, day)) => (front, day, 28),
        None => match part.rsplit_once('-') {
            Some((front, day)) => (front, day, 31),
            None => return false,
        },
    };
    let (year, month) = front.split_once('-').unwrap_or(("*", front));
    component(year, 1970, 2199) && component(month, 1, 12) && component(day, 1, high)
}

/// `HOUR:MINUTE[:SECOND]`.
fn is_time(part: &str) -> bool {
    let parts: Vec<&str> = part.split(':').collect();
    match parts.as_slice() {
        [hour, minute] => component(hour, 0, 23) && component(minute, 0, 59),
        [hour, minute, second] => {
            component(hour, 0, 23) && component(minute, 0, 59) && component(second, 0, 59)
        }
        _ => false,
    }
}

/// `*`, or values, ranges of them, and steps: `1..5,10/2`.
fn component(text: &str, low: u32, high: u32) -> bool {
    let number = |text: &str| {
        let plain = (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| text.parse::<u32>().ok()).flatten()
    };
    let value = |text: &str| number(text).filter(|value| (low..=high).contains(value));
    text == "*"
        || text.split(',').all(|item| {
            let (range, step) = match item.split_once('/') {
                Some((range, step)) => (range, Some(number(step))),
                None => (item, None),
            };
            let (first, last) = match range.split_once("..") {
                Some((first, last)) => (value(first), value(last)),
                None => (value(range), Some(high)),
            };
            let (Some(first), Some(last)) = (first, last) else { return false };
            let rising = !range.contains("..") || first < last;
            let steps = |step: Option<u32>| step.is_some_and(|step| step > 0 && first + step <= last);
            rising && step.is_none_or(steps)
        })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    const GOOD: [&str; 14] = [
        "daily",
        "weekly UTC",
        "Mon..Fri,Sun *-*-1..7,15/2 8,10..12:00/15:30 UTC",
        "*-02~03",
        "*-*-* *:*:*",
        "8:00 Europe/Berlin",
        "wednesday",
        "*:0/15",
        "2030-01-01 00:00:00",
        "Sat,Sun 10:00",
        "*:0/59",
        "1970/10-1-1",
        "12-24",
        "*-*~1..7",
    ];

    #[test]
    fn what_is_right_passes_and_what_is_wrong_is_told() {
        for event in GOOD {
            check(event).unwrap();
        }
        let bad = [
            "",
            " daily",
            "daily ",
            "sometimes",
            "Sat..Mon",
            "Mon..Mon",
            "*:60",
            "24:00",
            "*:0/60",
            "*:0/0",
            "*-*-32",
            "*-13-1",
            "*-0-1",
            "1969-1-1",
            "2200-1-1",
            "*-*~29",
            "Mon Tue",
            "10:00 Mon",
            "10",
            "*-*-* daily",
            "1:2:3:4",
            "*/2:00",
            "5..3:00",
            "*-*-*\n",
            "*:00;",
            "Mon..Fri/2",
            "@1",
            "é",
            "UTC",
            "*-*-*  10:00",
            "10:00:60",
            "+1:00",
        ];
        for event in bad {
            assert!(check(event).is_err(), "{event:?}");
        }
        let told = check("*:60").unwrap_err();
        assert!(
            told.starts_with("\"*:60\" is no calendar event: expected days of the week, a date"),
            "{told}"
        );
    }

    /// What systemd says, where the machine has its program.
    fn systemd(event: &str) -> Option<bool> {
        let said = Command::new("systemd-analyze").args(["calendar", "--", event]).output().ok()?;
        Some(said.status.success())
    }

    fn component_text(low: u32, high: u32) -> impl Strategy<Value = String> {
        let item = (low..=high + 1, proptest::option::of(low..=high + 1), proptest::option::of(0..=high + 1));
        let item = item.prop_map(|(first, last, step)| {
            let last = last.map_or_else(String::new, |last| format!("..{last}"));
            format!("{first}{last}{}", step.map_or_else(String::new, |step| format!("/{step}")))
        });
        prop_oneof![
            Just("*".to_owned()),
            proptest::collection::vec(item, 1..3).prop_map(|items| items.join(","))
        ]
    }

    fn event() -> impl Strategy<Value = String> {
        let days = "((Mon|tue|Friday)(\\.\\.(Fri|Sat|Sun))?,?){1,2}";
        let date = (component_text(1970, 2199), component_text(1, 12), "[-~]", component_text(1, 31));
        let date = date.prop_map(|(year, month, sign, day)| format!("{year}-{month}{sign}{day}"));
        let time = (component_text(0, 23), component_text(0, 59), component_text(0, 59));
        let time = time.prop_map(|(hour, minute, second)| format!("{hour}:{minute}:{second}"));
        let option = proptest::option::of::<BoxedStrategy<String>>;
        (option(days.boxed()), option(date.boxed()), option(time.boxed()), option("UTC|daily".boxed()))
            .prop_map(|(days, date, time, zone)| {
                [days, date, time, zone].into_iter().flatten().collect::<Vec<_>>().join(" ")
            })
    }

    #[test]
    fn systemd_takes_what_is_good() {
        for event in GOOD {
            assert_ne!(systemd(event), Some(false), "{event}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn whatever_passes_is_taken_by_systemd(event in event()) {
            if check(&event).is_ok() {
                prop_assert_ne!(systemd(&event), Some(false), "{}", event);
            }
        }

        #[test]
        fn no_text_is_too_much(text in "\\PC{0,40}") {
            let _ = check(&text);
        }
    }
}
