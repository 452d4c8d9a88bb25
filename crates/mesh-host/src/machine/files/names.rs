//! Users and groups by name, from `/etc/passwd` and `/etc/group`: a static program has no name service to ask.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// One of the two files, read again when it changed.
#[derive(Debug)]
pub(super) struct Names {
    path: PathBuf,
    stamp: Option<(u64, u64, i64, i64)>,
    by_name: HashMap<String, u32>,
    by_number: HashMap<u32, String>,
}

impl Names {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), stamp: None, by_name: HashMap::new(), by_number: HashMap::new() }
    }

    /// The number of this name; a name that is a number is that number.
    pub(super) fn number(&mut self, name: &str) -> Option<u32> {
        self.refresh();
        self.by_name.get(name).copied().or_else(|| name.parse().ok())
    }

    /// The name of this number; the number itself where there is none.
    pub(super) fn name(&mut self, number: u32) -> String {
        self.refresh();
        self.by_number.get(&number).cloned().unwrap_or_else(|| number.to_string())
    }

    fn refresh(&mut self) {
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
