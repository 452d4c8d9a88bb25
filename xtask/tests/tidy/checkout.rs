//! The checkout as rules see it: every text file that belongs to it, by its path from the root.
//!
//! It reads and never writes (the one exception is `frozen`, when asked to bless). Used by every rule.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What no rule looks at: what is built, and what belongs to other programs.
const SKIPPED: [&str; 5] = [".git", "target", "dist", "node_modules", "proptest-regressions"];

/// The files of the checkout. `texts` holds those that are UTF-8.
pub(crate) struct Checkout {
    pub(crate) root: PathBuf,
    pub(crate) texts: BTreeMap<String, String>,
}

impl Checkout {
    /// Reads the checkout this test was built from.
    pub(crate) fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf();
        let mut texts = BTreeMap::new();
        read_folder(&root, &root, &mut texts);
        assert!(texts.contains_key("Cargo.toml"), "the root of the checkout was not found");
        Self { root, texts }
    }

    /// The files whose path ends with `ending`, with their text.
    pub(crate) fn ending(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .filter(move |(path, _)| path.ends_with(ending))
            .map(|(path, text)| (&**path, &**text))
    }

    /// The names of the files directly in a folder, without the given ending. Empty if there is no such folder.
    pub(crate) fn names_in(&self, folder: &str, ending: &str) -> Vec<String> {
        let inside = |path: &String| {
            let name = path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(ending)?;
            (!name.contains('/')).then(|| name.to_owned())
        };
        self.texts.keys().filter_map(inside).collect()
    }
}

fn read_folder(root: &Path, folder: &Path, texts: &mut BTreeMap<String, String>) {
    // Others may be at work in the same checkout: a file that goes away while we look is no fault.
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            if !SKIPPED.contains(&&*name) {
                read_folder(root, &path, texts);
            }
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(&path)
        {
            texts.insert(path.strip_prefix(root).unwrap().to_string_lossy().into_owned(), text);
        }
    }
}

/// Fails with every complaint, one a line.
pub(crate) fn expect_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
