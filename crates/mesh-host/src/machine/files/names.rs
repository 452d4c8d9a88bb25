//! Users and groups by name, from `/etc/passwd` and `/etc/group`: a static program has no name service to ask.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::failure::Failure;

/// A round asks for thousands of names: for so long the file is taken to be as it was, unless a name is not in it.
const FRESH: Duration = Duration::from_millis(50);

/// One of the two files, read again when it changed.
#[derive(Debug)]
pub(crate) struct Names {
    path: PathBuf,
    stamp: Option<(u64, u64, i64, i64)>,
    looked: Option<Instant>,
    by_name: HashMap<String, u32>,
    by_number: HashMap<u32, String>,
}

impl Names {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            stamp: None,
            looked: None,
            by_name: HashMap::new(),
            by_number: HashMap::new(),
        }
    }

    /// The number of this name; a name that is a number is that number.
    pub(super) fn number(&mut self, name: &str) -> Option<u32> {
        if !self.is_fresh() || !self.by_name.contains_key(name) {
            self.refresh();
        }
        self.by_name.get(name).copied().or_else(|| name.parse().ok())
    }

    /// The name of this number; the number itself where there is none.
    pub(super) fn name(&mut self, number: u32) -> String {
        if !self.is_fresh() || !self.by_number.contains_key(&number) {
            self.refresh();
        }
        self.by_number.get(&number).cloned().unwrap_or_else(|| number.to_string())
    }

    /// That there is no such `user` or `group`.
    pub(crate) fn missing(what: &str, name: &str) -> Failure {
        Failure::new(format!(
            "the machine has no {what} {name:?}: declare it and let this wait for it with `after`, or declare another {what}"
        ))
    }

    fn is_fresh(&self) -> bool {
        self.looked.is_some_and(|looked| looked.elapsed() < FRESH)
    }

    fn refresh(&mut self) {
        self.looked = Some(Instant::now());
        let stamp = fs::metadata(&self.path).ok().map(|m| (m.ino(), m.size(), m.mtime(), m.mtime_nsec()));
        if stamp == self.stamp && stamp.is_some() {
            return;
        }
        self.stamp = stamp;
        self.by_name.clear();
        self.by_number.clear();
        let text = read(&self.path).unwrap_or_default();
        // NAME:PASSWORD:NUMBER:… in both files. The first line with a number gives it its name.
        for line in text.lines() {
            let mut fields = line.split(':');
            let (Some(name), Some(Ok(number))) = (fields.next(), fields.nth(1).map(str::parse::<u32>)) else {
                continue;
            };
            self.by_name.entry(name.to_owned()).or_insert(number);
            self.by_number.entry(number).or_insert_with(|| name.to_owned());
        }
        if !self.by_name.contains_key("root") {
            // Root is root also where these files do not exist.
            self.by_name.insert("root".to_owned(), 0);
            self.by_number.entry(0).or_insert_with(|| "root".to_owned());
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn a_user_made_just_now_is_known_and_one_renamed_soon_is() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str| fs::write(file.path(), text).unwrap();
        write("root:x:0:0::/:/bin/sh\n");
        let mut names = Names::new(file.path());
        assert_eq!((names.number("root"), names.name(0).as_str()), (Some(0), "root"));
        assert_eq!((names.number("hello"), names.number("7")), (None, Some(7)));
        write("root:x:0:0::/:/bin/sh\nhello:x:1234:1234::/:/bin/sh\n");
        assert_eq!(names.number("hello"), Some(1234), "at once: it was not there before");
        write("root:x:0:0::/:/bin/sh\nrenamed:x:1234:1234::/:/bin/sh\n");
        let begun = Instant::now();
        while names.name(1234) != "renamed" {
            assert!(begun.elapsed() < Duration::from_secs(10), "the old name is still said");
            std::thread::yield_now();
        }
    }
}
