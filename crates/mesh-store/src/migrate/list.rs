//! The migrations a program carries: a folder embedded whole, checked whole.
//!
//! The folder is embedded by `include_dir` rather than named file by file: in a list, a misnamed or forgotten file
//! is simply absent and nobody can refuse it. A crate that embeds has a one-line build script watching the folder,
//! since Cargo does not notice a new file by itself.
//! Never touches a database.
//! Called by: the contexts through [`crate::migrations!`].

use include_dir::{Dir, DirEntry};
use sha2::{Digest, Sha256};

use super::Refusal;
use crate::sql::{self, Unfit};

/// One migration, fit to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Its place in the order, from 1.
    pub number: u32,
    /// The file's name, `0001_nodes.sql`.
    pub file: String,
    /// Of the file's bytes, in lower-case hex.
    pub sha256: String,
    pub(crate) sql: String,
}

/// All migrations of a context, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrations(Vec<Migration>);

/// Embeds the folder `migrations` of the calling crate: `Result<Migrations, Refusal>`.
///
/// The crate needs a `build.rs` that prints `cargo::rerun-if-changed=migrations`, so that a new file is seen.
#[macro_export]
macro_rules! migrations {
    () => {{
        use $crate::include_dir;
        static FOLDER: $crate::include_dir::Dir<'static> =
            include_dir::include_dir!("$CARGO_MANIFEST_DIR/migrations");
        $crate::Migrations::embedded(&FOLDER)
    }};
}

impl Migrations {
    /// The migrations in an embedded folder.
    pub fn embedded(folder: &Dir<'_>) -> Result<Self, Refusal> {
        Self::of_files(folder.entries().iter().map(|entry| {
            let name = entry.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            match entry {
                DirEntry::File(file) => (name, file.contents()),
                // A folder is no migration; the slash keeps its name from ever passing for one.
                DirEntry::Dir(_) => (format!("{name}/"), [].as_slice()),
            }
        }))
    }

    /// The migrations in these files, given by name and content.
    pub fn of_files<'a, N: Into<String>>(
        files: impl IntoIterator<Item = (N, &'a [u8])>,
    ) -> Result<Self, Refusal> {
        let mut migrations = files
            .into_iter()
            .map(|(file, content)| Migration::read(file.into(), content))
            .collect::<Result<Vec<_>, _>>()?;
        migrations.sort_by(|a, b| (a.number, &a.file).cmp(&(b.number, &b.file)));
        for pair in migrations.windows(2) {
            if pair[0].number == pair[1].number {
                return Err(Refusal::SameNumber {
                    number: pair[0].number,
                    first: pair[0].file.clone(),
                    second: pair[1].file.clone(),
                });
            }
        }
        Ok(Self(migrations))
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = &Migration> {
        self.0.iter()
    }
}

impl Migration {
    fn read(file: String, content: &[u8]) -> Result<Self, Refusal> {
        let Some(number) = number_of(&file) else { return Err(Refusal::Misnamed { file }) };
        let Ok(sql) = std::str::from_utf8(content) else { return Err(Refusal::NotText { file }) };
        match sql::check(sql) {
            Ok(()) => {}
            Err(Unfit::Empty) => return Err(Refusal::Empty { file }),
            Err(Unfit::Transaction(found)) => {
                return Err(Refusal::OwnTransaction { file, found: found.to_owned() });
            }
        }
        let sha256 = Sha256::digest(content).iter().fold(String::new(), |mut hex, byte| {
            hex.push(char::from(HEX[usize::from(byte >> 4)]));
            hex.push(char::from(HEX[usize::from(byte & 15)]));
            hex
        });
        Ok(Self { number, sha256, sql: sql.to_owned(), file })
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// `NNNN_words.sql` with a number of at least 1.
fn number_of(file: &str) -> Option<u32> {
    let (number, words) = file.strip_suffix(".sql")?.split_once('_')?;
    let is_number = number.len() == 4 && number.bytes().all(|b| b.is_ascii_digit());
    let is_words =
        !words.is_empty() && words.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !is_number || !is_words {
        return None;
    }
    number.parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Result<Migrations, Refusal> {
        Migrations::of_files(files.iter().map(|(name, content)| (*name, content.as_bytes())))
    }

    #[test]
    fn the_number_decides_the_order() {
        let migrations =
            read(&[("0010_c.sql", "SELECT 3"), ("0002_b.sql", "SELECT 2"), ("0001_a.sql", "SELECT 1")]);
        let files: Vec<String> = migrations.unwrap().iter().map(|migration| migration.file.clone()).collect();
        assert_eq!(files, ["0001_a.sql", "0002_b.sql", "0010_c.sql"]);
    }

    #[test]
    fn a_misnamed_file_is_refused_and_the_words_say_how_to_name_it() {
        for file in [
            "nodes.sql",
            "1_nodes.sql",
            "00001_nodes.sql",
            "0000_nodes.sql",
            "0001-nodes.sql",
            "0001_Nodes.sql",
            "0001_.sql",
            "0001_nodes.SQL",
            "0001_nodes.sql~",
            "README.md",
            ".0001_nodes.sql.swp",
            "+001_a.sql",
        ] {
            let refusal = read(&[("0002_fine.sql", "SELECT 1"), (file, "SELECT 1")]).unwrap_err();
            assert_eq!(refusal, Refusal::Misnamed { file: file.to_owned() });
            assert!(refusal.to_string().contains("rename it to NNNN_words.sql"), "{refusal}");
        }
    }

    #[test]
    fn two_files_with_one_number_are_refused_and_the_words_name_both() {
        let refusal = read(&[("0001_b.sql", "SELECT 1"), ("0001_a.sql", "SELECT 2")]).unwrap_err();
        let words = refusal.to_string();
        assert!(words.contains("0001_a.sql and 0001_b.sql share the number 0001; give the one"), "{words}");
    }

    #[test]
    fn an_empty_file_is_refused_and_so_is_one_of_comments_alone() {
        for content in ["", "\n \n", "-- to be written\n", "/* nothing */;\n"] {
            let refusal = read(&[("0001_a.sql", content)]).unwrap_err();
            assert_eq!(refusal, Refusal::Empty { file: "0001_a.sql".to_owned() });
            assert!(refusal.to_string().contains("write it or delete the file"), "{refusal}");
        }
    }

    #[test]
    fn a_file_with_its_own_transaction_is_refused() {
        let refusal = read(&[("0001_a.sql", "BEGIN; CREATE TABLE a (); COMMIT;")]).unwrap_err();
        assert!(refusal.to_string().contains("0001_a.sql uses BEGIN"), "{refusal}");
    }

    #[test]
    fn a_file_that_is_not_text_is_refused() {
        let refusal = Migrations::of_files([("0001_a.sql", b"SELECT '\xff'".as_slice())]).unwrap_err();
        assert_eq!(refusal, Refusal::NotText { file: "0001_a.sql".to_owned() });
    }

    #[test]
    fn the_checksum_is_that_of_the_bytes() {
        let migrations = read(&[("0001_a.sql", "SELECT 1\n")]).unwrap();
        let sha256 = &migrations.iter().next().unwrap().sha256;
        assert_eq!(sha256, "a0a22c9dfa428cdce6fb3e58a40d4052335e17e5fbe42efc2f17f9ca813be62c");
    }
}
