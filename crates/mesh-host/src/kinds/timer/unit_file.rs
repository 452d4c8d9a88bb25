//! Unit files from what is declared: the same for the same declaration, byte for byte, and read by systemd as exactly
//! that. Pure.
//!
//! systemd.syntax(7) and systemd.service(5): a word in double quotes knows the escapes of C; `%` begins a specifier
//! everywhere, and is written twice; `$` begins a variable in a command only, and is written twice there.

use std::fmt::Write as _;

use mesh_wire::kinds::TimerSpec;

const HEAD: &str = "# Kept by mesh-host, which undoes what is changed here.\n";

/// The text of `NAME.timer`.
pub(super) fn timer(spec: &TimerSpec) -> String {
    let mut text = format!("{HEAD}[Unit]\nDescription=When {}.service runs\n\n[Timer]\n", spec.name);
    if let Some(event) = &spec.calendar {
        let _ = writeln!(text, "OnCalendar={}", plain(event));
    }
    if let Some(seconds) = spec.interval_s {
        let _ = write!(text, "OnActiveSec={seconds}s\nOnUnitActiveSec={seconds}s\n");
    }
    // Otherwise systemd is up to a minute late.
    text.push_str("AccuracySec=1s\n");
    if spec.persistent {
        text.push_str("Persistent=true\n");
    }
    if let Some(seconds) = spec.randomized_delay_s {
        let _ = writeln!(text, "RandomizedDelaySec={seconds}s");
    }
    text.push_str("\n[Install]\nWantedBy=timers.target\n");
    text
}

/// The text of `NAME.service`.
pub(super) fn service(spec: &TimerSpec) -> String {
    let mut text =
        format!("{HEAD}[Unit]\nDescription=What {}.timer runs\n\n[Service]\nType=oneshot\n", spec.name);
    if let Some(user) = &spec.user {
        let _ = writeln!(text, "User={}", plain(user));
    }
    if let Some(folder) = &spec.working_directory {
        let _ = writeln!(text, "WorkingDirectory={}", plain(folder));
    }
    for (name, value) in &spec.environment {
        let _ = writeln!(text, "Environment={}", word(&format!("{name}={value}")));
    }
    let mut command = spec.command.iter();
    let program = command.next().map(|program| word(program));
    // The path of the program knows no variables.
    let arguments = command.map(|argument| word(&argument.replace('$', "$$")));
    let words: Vec<String> = program.into_iter().chain(arguments).collect();
    let _ = writeln!(text, "ExecStart={}", words.join(" "));
    text
}

/// A value that is read as it stands but for specifiers.
fn plain(value: &str) -> String {
    value.replace('%', "%%")
}

/// One word of a line that is read word by word.
fn word(value: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !value.is_empty() && value.chars().all(bare) {
        return value.to_owned();
    }
    let mut text = "\"".to_owned();
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '%' => text.push_str("%%"),
            c if c.is_ascii_control() => {
                let _ = write!(text, "\\x{:02x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec(json: &serde_json::Value) -> TimerSpec {
        match mesh_wire::Spec::read("timer", &json.to_string()).unwrap() {
            mesh_wire::Spec::Timer(spec) => spec,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_files_are_written_as_a_person_would() {
        let spec = spec(&serde_json::json!({
            "name": "backup", "calendar": "Mon..Fri *-*-* 02:00:00", "persistent": true, "randomized_delay_s": 300,
            "command": ["/usr/bin/backup", "--to", "/srv/a b", "100%", "$HOME", ";", ""],
            "user": "backup", "working_directory": "/srv/100%",
            "environment": {"LANG": "C.UTF-8", "WORDS": "a \"b\"\n$c %d\\"}
        }));
        let timer_text = "# Kept by mesh-host, which undoes what is changed here.\n[Unit]\nDescription=When backup.service runs\n\n[Timer]\nOnCalendar=Mon..Fri *-*-* 02:00:00\nAccuracySec=1s\nPersistent=true\nRandomizedDelaySec=300s\n\n[Install]\nWantedBy=timers.target\n";
        assert_eq!(timer(&spec), timer_text);
        let service_text = r#"# Kept by mesh-host, which undoes what is changed here.
[Unit]
Description=What backup.timer runs

[Service]
Type=oneshot
User=backup
WorkingDirectory=/srv/100%%
Environment=LANG=C.UTF-8
Environment="WORDS=a \"b\"\n$c %%d\\"
ExecStart=/usr/bin/backup --to "/srv/a b" "100%%" "$$HOME" ";" ""
"#;
        assert_eq!(service(&spec), service_text);
        let every =
            super::tests::spec(&serde_json::json!({"name": "a", "interval_s": 60, "command": ["/bin/true"]}));
        assert!(
            timer(&every).contains("\n[Timer]\nOnActiveSec=60s\nOnUnitActiveSec=60s\nAccuracySec=1s\n\n")
        );
    }

    /// Reads words as systemd does (`extract_first_word` with unquoting and the escapes of C), specifiers after that.
    fn read_words(line: &str) -> Option<Vec<String>> {
        let mut words = Vec::new();
        let mut rest = line.chars().peekable();
        loop {
            while rest.next_if(|c| " \t\n\r".contains(*c)).is_some() {}
            if rest.peek().is_none() {
                return Some(words);
            }
            let (mut bytes, mut quote) = (Vec::new(), None);
            loop {
                match (rest.next(), quote) {
                    (None, None) => break,
                    (None, Some(_)) => return None,
                    (Some('\\'), _) => bytes.extend(read_escape(&mut rest)?),
                    (Some(c), Some(open)) if c == open => quote = None,
                    (Some(c @ ('"' | '\'')), None) => quote = Some(c),
                    (Some(c), None) if " \t\n\r".contains(c) => break,
                    (Some(c), _) => bytes.extend(c.to_string().bytes()),
                }
            }
            words.push(read_specifiers(&String::from_utf8(bytes).ok()?)?);
        }
    }

    fn read_escape(rest: &mut impl Iterator<Item = char>) -> Option<Vec<u8>> {
        Some(vec![match rest.next()? {
            'n' => b'\n',
            't' => b'\t',
            c @ ('"' | '\'' | '\\') => u8::try_from(c).ok()?,
            'x' => {
                let digits: String = rest.take(2).collect();
                u8::from_str_radix(&digits, 16).ok().filter(|byte| *byte != 0)?
            }
            _ => return None,
        }])
    }

    /// Only `%%` is no specifier.
    fn read_specifiers(word: &str) -> Option<String> {
        let without = word.replace("%%", "");
        (!without.contains('%')).then(|| word.replace("%%", "%"))
    }

    /// Only `$$` is no variable.
    fn read_variables(word: &str) -> Option<String> {
        let without = word.replace("$$", "");
        (!without.contains('$')).then(|| word.replace("$$", "$"))
    }

    fn line<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
        // What is not on a line of its own, or is continued on the next, would be seen here.
        assert!(text.lines().all(|line| !line.ends_with('\\') && !line.contains(['\r', '\0'])), "{text}");
        text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).collect()
    }

    proptest! {
        #[test]
        fn whatever_is_declared_is_what_systemd_reads(
            arguments in proptest::collection::vec(proptest::string::string_regex("(\\PC|[\u{1}-\u{20}\u{7f}\"'%$\\\\;]){0,12}").unwrap(), 0..6),
            value in "(\\PC|[\t\n \"'%$\\\\;]){0,20}",
            program in "/(usr/)?[a-zA-Z0-9 %;~#é-]{1,10}",
        ) {
            let command: Vec<&str> = std::iter::once(program.as_str()).chain(arguments.iter().map(String::as_str)).collect();
            let spec = spec(&serde_json::json!({
                "name": "a", "calendar": "daily", "command": command, "environment": {"A": value}
            }));
            let text = service(&spec);
            prop_assert_eq!(&text, &service(&spec), "the same for the same");
            let [environment] = line(&text, "Environment")[..] else { panic!("{text}") };
            prop_assert_eq!(read_words(environment), Some(vec![format!("A={value}")]), "{}", text);
            let [execute] = line(&text, "ExecStart")[..] else { panic!("{text}") };
            let mut words = read_words(execute).unwrap().into_iter();
            prop_assert_eq!(words.next(), Some(program.clone()), "{}", text);
            let read: Option<Vec<String>> = words.map(|word| read_variables(&word)).collect();
            prop_assert_eq!(read, Some(arguments), "{}", text);
            // A bare ';' parts commands.
            prop_assert!(!execute.split(' ').any(|word| word == ";") || execute.contains('"'));
        }
    }
}
