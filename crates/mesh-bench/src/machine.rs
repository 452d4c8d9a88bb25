//! What machine this is, and how busy: a figure means nothing without it.
//!
//! It only reads. What a file does not say is said to be unknown.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::table::number;

/// The machine and how busy it was when the run began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Machine {
    processor: String,
    cores: usize,
    memory_bytes: u64,
    system: String,
    kernel: String,
    /// The mean number of runnable processes of the last minute, before anything was measured.
    load: f64,
}

impl Machine {
    /// This one.
    pub(crate) fn this() -> Self {
        Self::under(Path::new("/"))
    }

    fn under(root: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let processors = read("proc/cpuinfo");
        let unknown = || "unknown".to_owned();
        let memory = value(&read("proc/meminfo"), "MemTotal", ':')
            .and_then(|text| text.trim_end_matches("kB").trim().parse::<u64>().ok());
        let load = read("proc/loadavg").split_whitespace().next().and_then(|first| first.parse().ok());
        Self {
            processor: value(&processors, "model name", ':').unwrap_or_else(unknown),
            cores: processors.lines().filter(|line| line.starts_with("processor")).count(),
            memory_bytes: memory.unwrap_or(0) * 1024,
            system: value(&read("etc/os-release"), "PRETTY_NAME", '=').unwrap_or_else(unknown),
            kernel: read("proc/sys/kernel/osrelease").trim().to_owned(),
            load: load.unwrap_or(f64::NAN),
        }
    }
}

/// The value of the first line of this name, without quotes.
fn value(text: &str, name: &str, separator: char) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim().trim_matches('"').to_owned())
    })
}

impl fmt::Display for Machine {
    #[expect(clippy::cast_precision_loss, reason = "a size for a person to read")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, cores, memory_bytes, system, kernel, load } = self;
        let memory = number(*memory_bytes as f64 / 1e9);
        write!(f, "{cores} x {processor}, {memory} GB, {system}, Linux {kernel}, load {}", number(*load))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described_by_what_its_files_say() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Some CPU\n\nprocessor\t: 1\nmodel name\t: Some CPU\n",
        );
        write("proc/meminfo", "MemFree: 1 kB\nMemTotal:       16000000 kB\n");
        write("proc/loadavg", "1.25 0.5 0.2 1/100 1234\n");
        write("proc/sys/kernel/osrelease", "6.1.0\n");
        write("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n");
        let said = Machine::under(root.path()).to_string();
        assert_eq!(said, "2 x Some CPU, 16.4 GB, Debian GNU/Linux 12, Linux 6.1.0, load 1.25");
        let bare = Machine::under(&root.path().join("nowhere"));
        assert_eq!((bare.processor.as_str(), bare.cores, bare.memory_bytes), ("unknown", 0, 0));
    }
}
