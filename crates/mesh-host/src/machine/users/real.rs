//! The machine's own users: read from `/etc/passwd` and `/etc/group`, changed by the programs of the package `passwd`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;

use super::{NewUser, UserChange, UserFound, Users};
use crate::{
    failure::{During as _, Failure},
    machine::tool::Tool,
};

/// They wait up to 15 s for one another's lock by themselves, and may have a large `/etc/passwd` to write.
const PATIENCE: Duration = Duration::from_mins(1);

const fn tool(name: &'static str) -> Tool {
    Tool { name, package: "passwd", patience: PATIENCE }
}

/// The users of the machine under a folder.
#[derive(Debug)]
pub struct RealUsers {
    root: PathBuf,
}

impl RealUsers {
    /// Those of the machine under `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The fields of every line of one of the files of users; a line is never understood by half.
    fn lines(&self, file: &str, fields: usize) -> Result<Vec<Vec<String>>, Failure> {
        let bytes = fs::read(self.root.join("etc").join(file)).during(format!("read /etc/{file}"))?;
        let text = String::from_utf8_lossy(&bytes);
        let split = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
        Ok(text.lines().map(split).filter(|line| line.len() == fields).collect())
    }

    async fn run(&self, tool: Tool, arguments: Vec<String>) -> Result<(), Failure> {
        // With a prefix they use the files below it, and no name service.
        let prefix = (self.root != Path::new("/"))
            .then(|| ["--prefix".to_owned(), self.root.display().to_string()])
            .into_iter()
            .flatten();
        let arguments: Vec<String> = prefix.chain(arguments).collect();
        let ended = tool.run(&arguments).await?;
        match ended.code {
            Some(0) => Ok(()),
            Some(code) => Err(Failure::new(format!("{} failed ({code}): {}", tool.name, ended.words))),
            None => Err(Failure::new(format!("{} was ended by a signal: {}", tool.name, ended.words))),
        }
    }
}

fn joined(groups: &BTreeSet<String>) -> String {
    groups.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

/// Owned arguments.
fn arguments(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[async_trait(?Send)]
impl Users for RealUsers {
    fn look(&self, name: &str) -> Result<Option<UserFound>, Failure> {
        // NAME:PASSWORD:UID:GID:WORDS:HOME:SHELL (passwd(5)); the first line of a name counts.
        let lines = self.lines("passwd", 7)?;
        let Some(line) = lines.into_iter().find(|line| line[0] == name) else { return Ok(None) };
        let (Ok(uid), Ok(gid)) = (line[2].parse(), line[3].parse()) else {
            return Err(Failure::new(format!("/etc/passwd has no numbers for {name}: repair it with pwck")));
        };
        // NAME:PASSWORD:GID:USER,USER (group(5)).
        let groups = self.lines("group", 4)?.into_iter();
        let groups = groups.filter(|line| line[3].split(',').any(|member| member == name));
        let groups = groups.map(|mut line| line.swap_remove(0)).collect();
        let [.., home, shell] = line.as_slice() else { return Ok(None) };
        Ok(Some(UserFound { uid, gid, home: home.clone(), shell: shell.clone(), groups }))
    }

    fn group(&self, name: &str) -> Result<Option<u32>, Failure> {
        let lines = self.lines("group", 4)?;
        let Some(line) = lines.iter().find(|line| line[0] == name) else { return Ok(None) };
        let gid = line[2].parse();
        gid.map(Some)
            .map_err(|_| Failure::new(format!("/etc/group has no number for {name}: repair it with grpck")))
    }

    async fn make_group(&self, name: &str, gid: Option<u32>) -> Result<(), Failure> {
        if self.group(name)?.is_some() {
            return Ok(());
        }
        let mut words = arguments(&["--system"]);
        words.extend(gid.into_iter().flat_map(|gid| ["--gid".to_owned(), gid.to_string()]));
        words.extend(arguments(&["--", name]));
        self.run(tool("groupadd"), words).await
    }

    async fn make_user(&self, user: &NewUser) -> Result<(), Failure> {
        let NewUser { name, uid, home, shell, groups } = user;
        let mut words = arguments(&["--system", "--no-create-home", "--gid", name]);
        words.extend(arguments(&["--home-dir", home, "--shell", shell]));
        words.extend(uid.iter().flat_map(|uid| ["--uid".to_owned(), uid.to_string()]));
        if !groups.is_empty() {
            words.extend(["--groups".to_owned(), joined(groups)]);
        }
        words.extend(arguments(&["--", name]));
        self.run(tool("useradd"), words).await
    }

    async fn change_user(&self, name: &str, change: &UserChange) -> Result<(), Failure> {
        let UserChange { home, shell, groups } = change;
        let home = home.iter().flat_map(|home| ["--home".to_owned(), home.clone()]);
        let shell = shell.iter().flat_map(|shell| ["--shell".to_owned(), shell.clone()]);
        let groups = groups.iter().flat_map(|groups| ["--groups".to_owned(), joined(groups)]);
        let words = home.chain(shell).chain(groups).chain(arguments(&["--", name])).collect();
        self.run(tool("usermod"), words).await
    }

    async fn delete_user(&self, name: &str) -> Result<(), Failure> {
        if self.look(name)?.is_none() {
            return Ok(());
        }
        self.run(tool("userdel"), arguments(&["--", name])).await
    }

    async fn delete_group(&self, name: &str) -> Result<(), Failure> {
        if self.group(name)?.is_none() {
            return Ok(());
        }
        self.run(tool("groupdel"), arguments(&["--", name])).await
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    /// A machine's files of users below a folder; `None` where these may not be changed: only root may.
    fn machine() -> Option<(tempfile::TempDir, RealUsers)> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let root = tempfile::tempdir().unwrap();
        let etc = root.path().join("etc");
        fs::create_dir(&etc).unwrap();
        let write = |name: &str, text: &str| fs::write(etc.join(name), text).unwrap();
        write("passwd", "root:x:0:0:root:/root:/bin/bash\nhalf:x:1\n");
        write("shadow", "root:*:19000:0:99999:7:::\n");
        write("group", "root:x:0:\nadm:x:4:\nvideo:x:44:\n");
        write("gshadow", "root:*::\nadm:*::\nvideo:*::\n");
        // As Debian's: the group of a user's name goes with it.
        write(
            "login.defs",
            "SYS_UID_MIN 100\nSYS_UID_MAX 999\nSYS_GID_MIN 100\nSYS_GID_MAX 999\nUSERGROUPS_ENAB yes\n",
        );
        let users = RealUsers::new(root.path());
        Some((root, users))
    }

    fn hello() -> NewUser {
        NewUser {
            name: "hello".to_owned(),
            uid: Some(300),
            home: "/var/lib/hello".to_owned(),
            shell: "/usr/sbin/nologin".to_owned(),
            groups: BTreeSet::from(["adm".to_owned()]),
        }
    }

    #[tokio::test]
    async fn a_user_is_made_changed_and_deleted_and_the_files_are_as_before() {
        let Some((root, users)) = machine() else { return };
        let read = |name: &str| fs::read_to_string(root.path().join("etc").join(name)).unwrap();
        let files = || ["passwd", "shadow", "group", "gshadow"].map(read);
        let before = files();
        users.make_group("hello", Some(301)).await.unwrap();
        users.make_group("hello", None).await.unwrap();
        users.make_user(&hello()).await.unwrap();
        assert_eq!(users.group("hello").unwrap(), Some(301));
        let NewUser { home, shell, groups, .. } = hello();
        let found = UserFound { uid: 300, gid: 301, home, shell, groups };
        assert_eq!(users.look("hello").unwrap(), Some(found.clone()));
        assert!(
            read("shadow").lines().any(|line| line.starts_with("hello:!:")),
            "no password: {}",
            read("shadow")
        );
        assert!(!root.path().join("var").exists(), "no home is made");
        let change = UserChange {
            home: Some("/srv/a b".to_owned()),
            shell: None,
            groups: Some(BTreeSet::from(["video".to_owned()])),
        };
        users.change_user("hello", &change).await.unwrap();
        let groups = BTreeSet::from(["video".to_owned()]);
        let changed = UserFound { home: "/srv/a b".to_owned(), groups, ..found };
        assert_eq!(users.look("hello").unwrap(), Some(changed.clone()));
        let none = UserChange { groups: Some(BTreeSet::new()), ..UserChange::default() };
        users.change_user("hello", &none).await.unwrap();
        assert_eq!(users.look("hello").unwrap(), Some(UserFound { groups: BTreeSet::new(), ..changed }));
        for _ in 0..2 {
            users.delete_user("hello").await.unwrap();
            users.delete_group("hello").await.unwrap();
        }
        assert_eq!(files(), before);
    }

    #[tokio::test]
    async fn what_the_programs_refuse_is_said() {
        let Some((_root, users)) = machine() else { return };
        let refused = users.make_user(&hello()).await.unwrap_err().to_string();
        assert_eq!(refused, "useradd failed (6): useradd: group 'hello' does not exist");
        users.make_group("hello", None).await.unwrap();
        users.make_user(&NewUser { uid: None, ..hello() }).await.unwrap();
        let refused = users.delete_group("hello").await.unwrap_err().to_string();
        assert!(refused.contains("cannot remove the primary group of user 'hello'"), "{refused}");
        assert_eq!(users.look("half").unwrap(), None, "half a line is none");
        assert_eq!(users.look("ghost").unwrap(), None);
    }

    #[tokio::test]
    async fn a_file_may_belong_to_a_user_made_just_now() {
        use crate::machine::files::{Content, Files as _, Found, Meta, RealFiles, Write};
        let Some((root, users)) = machine() else { return };
        let files = RealFiles::new(root.path(), &root.path().join("saved"));
        let meta = Meta {
            mode: mesh_wire::kinds::Mode::new(0o640),
            owner: "hello".to_owned(),
            group: "hello".to_owned(),
        };
        let write = Write { path: "/etc/f".to_owned(), content: Content::new(b"x"), meta: meta.clone() };
        assert!(files.write(std::slice::from_ref(&write)).remove(0).is_err(), "there is no such user yet");
        users.make_group("hello", None).await.unwrap();
        users.make_user(&hello()).await.unwrap();
        files.write(std::slice::from_ref(&write)).remove(0).unwrap();
        assert!(matches!(files.look("/etc/f").unwrap(), Found::File { meta: found, .. } if found == meta));
    }
}
