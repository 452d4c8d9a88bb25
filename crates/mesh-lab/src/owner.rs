//! Who takes a lab down: a person, or the process that raised it; and which processes still work on it.
//!
//! It only tells what runs; it never ends a process. [`crate::lab`] writes the owner on the lab's network.

use std::fs;

/// Who takes a lab down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Whoever says `mesh-lab down`.
    Person,
    /// A process; when it is gone, anybody may.
    Process {
        /// Its number.
        id: u32,
        /// When it started, in the kernel's ticks: a number used again is another process.
        started: u64,
    },
}

impl Owner {
    /// The process this runs in.
    pub fn this_process() -> Self {
        let id = std::process::id();
        Self::Process { id, started: start_of(id).unwrap_or(0) }
    }

    /// Whether its process is gone.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Person => false,
            Self::Process { id, started } => start_of(*id) != Some(*started),
        }
    }

    pub(crate) fn written(&self) -> String {
        match self {
            Self::Person => "person".to_owned(),
            Self::Process { id, started } => format!("{id}.{started}"),
        }
    }

    pub(crate) fn read(text: &str) -> Self {
        let process =
            text.split_once('.').and_then(|(id, started)| Some((id.parse().ok()?, started.parse().ok()?)));
        process.map_or(Self::Person, |(id, started)| Self::Process { id, started })
    }
}

/// The processes that have all these words among their arguments.
pub(crate) fn processes_with(words: &[&str]) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_all = |id: &u32| {
        let Ok(line) = fs::read(format!("/proc/{id}/cmdline")) else { return false };
        words.iter().all(|word| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes()))
    };
    ids.filter(has_all).collect()
}

/// Field 22 of `/proc/ID/stat`, counted after the name, which may contain anything.
fn start_of(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_whole_words_of_its_arguments_while_it_runs() {
        let word = format!("mesh.lab=owner-test-{}", std::process::id());
        let asked = || processes_with(&["--label", &word]);
        assert_eq!(asked(), [] as [u32; 0]);
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read line", "--label", &word])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        crate::wait_for("the shell to be seen", std::time::Duration::from_secs(10), || {
            if asked() == [child.id()] { Ok(()) } else { Err(format!("{:?}", asked())) }
        })
        .unwrap();
        assert_eq!(
            processes_with(&["--label", &word[1..]]),
            [] as [u32; 0],
            "part of a word is not the word"
        );
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(asked(), [] as [u32; 0]);
    }

    #[test]
    fn a_process_that_ended_or_whose_number_is_used_again_is_gone_and_a_person_never_is() {
        let own = Owner::this_process();
        assert!(!own.is_gone());
        assert_eq!(Owner::read(&own.written()), own);
        let id = std::process::id();
        assert!(Owner::Process { id, started: 1 }.is_gone(), "the number is used again");
        assert!(Owner::Process { id: u32::MAX, started: 1 }.is_gone());
        assert!(!Owner::Person.is_gone());
        assert_eq!(Owner::read("person"), Owner::Person);
    }
}
