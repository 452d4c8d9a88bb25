//! The cache's housekeeping: where it is, folders to work in, what a killed build left, how many old images stay.
//!
//! It never decides whether an entry is right (its key and its digests do) and removes only what this code made.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context as _;

/// How many builds of one image stay: the one in use, and those that other checkouts are likely to be on.
const KEPT: usize = 3;

/// The length of the keys that end an entry's name.
pub(crate) const KEY_LENGTH: usize = 24;

/// Where images and packages are kept between builds, outside the checkout.
pub(crate) fn place() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("NOVOX_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("novox-mesh")))
        .or_else(|| Some(set("HOME")?.join(".cache/novox-mesh")))
        .context("say where to keep images in NOVOX_CACHE: neither XDG_CACHE_HOME nor HOME is set")
}

/// A folder in `parent` to work in, gone when dropped. Those that killed builds left are removed first.
pub(crate) fn work_folder(parent: &Path, purpose: &str) -> anyhow::Result<tempfile::TempDir> {
    fs::create_dir_all(parent).with_context(|| format!("make {}", parent.display()))?;
    sweep(parent, purpose)?;
    let prefix = format!(".{purpose}-{}-", std::process::id());
    let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent);
    folder.with_context(|| format!("make a folder in {}", parent.display()))
}

/// Removes the working folders of processes that are no more.
fn sweep(parent: &Path, purpose: &str) -> anyhow::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for path in entries(parent)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let maker = name.strip_prefix(&format!(".{purpose}-")).and_then(|rest| rest.split('-').next());
        let Some(maker) = maker.and_then(|maker| maker.parse::<u32>().ok()) else { continue };
        if Path::new("/proc").join(maker.to_string()).exists() {
            continue;
        }
        // mmdebstrap mounts within a namespace that dies with it. If one ever stays, what is mounted is not ours to remove.
        if mounts.contains(&format!(" {}/", path.display())) {
            println!("{} is left alone: something is mounted in it", path.display());
            continue;
        }
        fs::remove_dir_all(&path)
            .with_context(|| format!("remove {}, left by a killed build", path.display()))?;
    }
    Ok(())
}

/// Removes the oldest builds of the image `name` in `folder`.
pub(crate) fn prune(folder: &Path, name: &str) -> anyhow::Result<()> {
    let mut builds: Vec<(SystemTime, PathBuf)> = Vec::new();
    for path in entries(folder)? {
        let key = path.file_name().and_then(|entry| entry.to_str()?.strip_prefix(name)?.strip_prefix('-'));
        if key.is_some_and(|key| key.len() == KEY_LENGTH && key.bytes().all(|byte| byte.is_ascii_hexdigit()))
        {
            builds.push((path.metadata()?.modified()?, path));
        }
    }
    builds.sort();
    let old = builds.len().saturating_sub(KEPT);
    builds[..old].iter().try_for_each(|(_, path)| {
        fs::remove_dir_all(path).with_context(|| format!("remove {}", path.display()))
    })
}

fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn what_a_dead_process_left_goes_and_what_a_living_one_uses_stays() {
        let parent = tempfile::tempdir().unwrap();
        let living = work_folder(parent.path(), "cooking").unwrap();
        // Above the kernel's largest process id.
        let dead = parent.path().join(".cooking-4999999-x");
        fs::create_dir_all(dead.join("deep")).unwrap();
        let foreign = parent.path().join(".cooking-notes");
        fs::create_dir(&foreign).unwrap();
        drop(work_folder(parent.path(), "cooking").unwrap());
        assert!(living.path().exists() && foreign.exists() && !dead.exists());
    }

    #[test]
    fn old_builds_of_one_image_go_and_other_images_stay() {
        let folder = tempfile::tempdir().unwrap();
        let entry =
            |name: &str, digit: &str| folder.path().join(format!("{name}-{}", digit.repeat(KEY_LENGTH)));
        for (age, digit) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let path = entry("node", digit);
            fs::create_dir(&path).unwrap();
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age as u64);
            fs::File::open(&path).unwrap().set_modified(at).unwrap();
        }
        fs::create_dir(entry("node-bare", "a")).unwrap();
        prune(folder.path(), "node").unwrap();
        assert!(
            !entry("node", "a").exists() && entry("node", "b").exists() && entry("node-bare", "a").exists()
        );
    }
}
