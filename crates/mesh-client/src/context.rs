//! Contexts: which mesh, where its interface is, which CA it has, and with what token. One 0600 JSON file each, under
//! the configuration folder of the person; a file named `current` says which one is meant where none is named.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use crate::error::Error;

/// Which mesh, where, and with what token.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// What the person calls it.
    pub name: String,
    /// Where the interface listens, e.g. `https://192.0.2.1:8443`.
    pub api: String,
    /// The name in its certificate, whatever address is dialled.
    pub server_name: String,
    /// The mesh's CA, as PEM. No other is trusted.
    pub ca_pem: String,
    /// The token, sent with every request.
    #[serde(serialize_with = "expose")]
    pub token: SecretString,
}

fn expose<S: Serializer>(token: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(token.expose_secret())
}

/// The contexts of one person.
#[derive(Debug, Clone)]
pub struct ContextStore {
    folder: PathBuf,
}

impl ContextStore {
    /// The contexts in this folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder by convention: `$XDG_CONFIG_HOME/mesh`, or `~/.config/mesh`.
    pub fn of_this_person() -> Self {
        let base = std::env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty()).map_or_else(
            || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".config"),
            PathBuf::from,
        );
        Self::at(base.join("mesh"))
    }

    /// Reads the context of this name; the current one where none is named.
    pub fn load(&self, name: Option<&str>) -> Result<Context, Error> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => self.current()?.ok_or_else(|| Error::NoContext(self.contexts()))?,
        };
        let path = self.path(&name)?;
        let text = fs::read_to_string(&path).map_err(|error| unusable(&path, &error))?;
        serde_json::from_str(&text).map_err(|error| unusable(&path, &error))
    }

    /// The name of the current context, where one was chosen. A single context needs no choice.
    pub fn current(&self) -> Result<Option<String>, Error> {
        let path = self.folder.join("current");
        match fs::read_to_string(&path) {
            Ok(name) => Ok(Some(name.trim().to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let mut names = self.list()?;
                Ok(if names.len() == 1 { names.pop() } else { None })
            }
            Err(error) => Err(unusable(&path, &error)),
        }
    }

    /// The names of all contexts, in order.
    pub fn list(&self) -> Result<Vec<String>, Error> {
        let folder = self.contexts();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unusable(&folder, &error)),
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Keeps a context under its name, readable by its owner alone.
    pub fn save(&self, context: &Context) -> Result<PathBuf, Error> {
        let path = self.path(&context.name)?;
        let text = serde_json::to_string_pretty(context).map_err(|error| unusable(&path, &error))?;
        write_private(&path, &text).map_err(|error| unusable(&path, &error))?;
        Ok(path)
    }

    /// Makes a context the current one.
    pub fn choose(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name)?;
        if !path.exists() {
            return Err(unusable(&path, &"there is no such context"));
        }
        let current = self.folder.join("current");
        write_private(&current, &format!("{name}\n")).map_err(|error| unusable(&current, &error))
    }

    /// Forgets a context, and that it was the current one.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(unusable(&path, &error));
            }
            _ => {}
        }
        let current = self.folder.join("current");
        if fs::read_to_string(&current).is_ok_and(|current| current.trim() == name) {
            fs::remove_file(&current).map_err(|error| unusable(&current, &error))?;
        }
        Ok(())
    }

    fn contexts(&self) -> PathBuf {
        self.folder.join("contexts")
    }

    fn path(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.contexts().join(format!("{name}.json"));
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
            return Err(unusable(&path, &"a context is named with letters, digits, '.', '_' and '-'"));
        }
        Ok(path)
    }
}

fn unusable(path: &Path, reason: &impl ToString) -> Error {
    Error::Context { path: path.to_owned(), reason: reason.to_string() }
}

/// Writes beside and renames, so that a reader sees the old text or the new one, and nobody else sees either.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().ok_or_else(|| std::io::Error::other("the path has no folder"))?;
    fs::create_dir_all(folder)?;
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn context(name: &str) -> Context {
        Context {
            name: name.to_owned(),
            api: "https://192.0.2.1:8443".to_owned(),
            server_name: "api.mesh.internal".to_owned(),
            ca_pem: String::new(),
            token: "secret".to_owned().into(),
        }
    }

    #[test]
    fn a_context_is_kept_privately_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = ContextStore::at(folder.path());
        assert!(matches!(store.load(None), Err(Error::NoContext(_))));
        let path = store.save(&context("lab")).unwrap();
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        let loaded = store.load(None).unwrap();
        assert_eq!(loaded.token.expose_secret(), "secret");
        assert!(!format!("{loaded:?}").contains("secret\""), "the token is not printed");
    }

    #[test]
    fn of_several_contexts_the_chosen_one_is_current() {
        let folder = tempfile::tempdir().unwrap();
        let store = ContextStore::at(folder.path());
        store.save(&context("a")).unwrap();
        store.save(&context("b")).unwrap();
        assert!(matches!(store.load(None), Err(Error::NoContext(_))));
        store.choose("b").unwrap();
        assert_eq!(store.load(None).unwrap().name, "b");
        store.remove("b").unwrap();
        assert_eq!(store.load(None).unwrap().name, "a");
        assert!(store.choose("c").is_err());
    }

    #[test]
    fn a_name_that_is_a_path_is_refused() {
        let store = ContextStore::at("/nonexistent");
        for name in ["../x", "a/b", "", ".hidden"] {
            assert!(matches!(store.load(Some(name)), Err(Error::Context { .. })), "{name}");
        }
    }
}
