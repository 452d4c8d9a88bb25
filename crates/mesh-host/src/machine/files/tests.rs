//! What the door to files keeps, tried on the machine in memory and on a real file system alike: whatever stands in the
//! way is said in words a person can act on, the last good content stays, nothing is left lying about, and once the cause
//! is gone the next round puts it right.

#![expect(clippy::print_stderr, reason = "what could not be tried on this machine is said")]

mod fake;
mod real;

use std::{fmt::Write as _, ops::ControlFlow, path::Path, rc::Rc};

use super::{Files, Found, Trouble};
use crate::{
    contract::{folder, resources},
    host::Host,
    machine::{Machine, engine::NoEngine, fake::World},
    paths::Paths,
    reconcile::Outcome,
};

/// A machine's files, and a person who can do anything to them.
trait Ground {
    /// For messages.
    fn name(&self) -> &'static str;
    /// The door.
    fn files(&self) -> Rc<dyn Files>;
    /// Writes a file.
    fn put(&self, path: &str, text: &str, mode: u32, owner: &str);
    /// Makes a directory.
    fn make(&self, path: &str, mode: u32, owner: &str);
    /// Makes a symbolic link.
    fn link(&self, path: &str, to: &str, owner: &str);
    /// Gives a file a second name.
    fn name_again(&self, path: &str, other: &str);
    /// Makes something that is neither file nor directory.
    fn make_odd(&self, path: &str);
    /// Takes anything away.
    fn take(&self, path: &str);
    /// The names in a folder.
    fn names(&self, folder: &str) -> Vec<String>;
    /// Puts this in the way, or takes it out of it. Whether that can be done here.
    fn cause(&self, trouble: Trouble, path: &str, on: bool) -> bool;
}

/// What stands on both grounds: `/etc`, `/run` with a link `/var/run` to it, and the home of a user, who is called `bob`
/// and has the number 1234, as has `robert`.
const FOLDERS: [(&str, u32, &str); 6] = [
    ("/etc", 0o755, "root"),
    ("/run", 0o755, "root"),
    ("/var", 0o755, "root"),
    ("/tmp", 0o1777, "root"),
    ("/home", 0o755, "root"),
    ("/home/bob", 0o755, "bob"),
];

fn furnish(ground: &dyn Ground) {
    for (path, mode, owner) in FOLDERS {
        ground.make(path, mode, owner);
    }
    ground.link("/var/run", "../run", "root");
}

/// A host on this ground, with a ledger of its own.
struct Bench {
    ground: Box<dyn Ground>,
    ledger: tempfile::TempDir,
}

impl Bench {
    fn machine(&self) -> Machine {
        Machine { files: self.ground.files(), ..World::bare().machine(Rc::new(NoEngine)) }
    }

    async fn carry(&self, json: &str) -> Outcome {
        let paths = Paths::under(self.ledger.path());
        let mut host = Host::open(&paths, self.machine(), None).await.expect("the ledger opens");
        host.carry(resources(json), &mut |_, _, _| {}).await.expect("carried").clone()
    }

    /// Carries it, and says what failed.
    async fn failures(&self, json: &str) -> Vec<String> {
        let outcome = self.carry(json).await;
        outcome.failed.into_iter().map(|((_, id), why)| format!("{id}: {why}")).collect()
    }

    async fn converges(&self, json: &str) {
        assert_eq!(self.failures(json).await, Vec::<String>::new(), "{}: {json}", self.ground.name());
        assert_eq!(self.carry(json).await.steps, 0, "{}: twice is once: {json}", self.ground.name());
    }

    fn text(&self, path: &str) -> Option<String> {
        let files = self.ground.files();
        match files.look(path).expect("looked at") {
            Found::File { .. } => Some(String::from_utf8(files.read(path).expect("read")).expect("text")),
            _ => None,
        }
    }

    /// Mode and owner at a path.
    fn meta(&self, path: &str) -> String {
        match self.ground.files().look(path).expect("looked at") {
            Found::File { meta, .. } | Found::Directory(meta) => meta.to_string(),
            other => format!("{other:?}"),
        }
    }

    fn leftovers(&self) -> Vec<String> {
        let folders = FOLDERS.iter().flat_map(|(folder, ..)| self.ground.names(folder));
        folders.filter(|name| name.starts_with(".mesh-host")).collect()
    }
}

fn benches(real: Option<&Path>) -> Vec<Bench> {
    let mut grounds: Vec<Box<dyn Ground>> = vec![Box::new(fake::Memory::new())];
    if real::is_root() {
        grounds.push(Box::new(real::Disk::new(real)));
    } else {
        eprintln!("only the machine in memory is tried: a real one needs root");
    }
    for ground in &grounds {
        furnish(ground.as_ref());
    }
    grounds.into_iter().map(|ground| Bench { ground, ledger: folder() }).collect()
}

fn file(path: &str, text: &str) -> String {
    with(path, text, "")
}

fn with(path: &str, text: &str, more: &str) -> String {
    let path = serde_json::to_string(path).expect("JSON");
    format!(
        r#"[{{"id": "f", "kind": "file", "spec": {{"path": {path}, "content": {{"text": "{text}"}}{more}}}}}]"#
    )
}

#[tokio::test]
async fn any_name_a_file_can_have_is_written_changed_and_taken_away() {
    let longest = format!("/etc/{}", "n".repeat(255));
    let longest_utf8 = format!("/etc/{}x", "ü".repeat(127));
    let mut deep = String::new();
    (0..60).for_each(|n| write!(deep, "/level-{n:02}").expect("written"));
    for bench in benches(None) {
        for path in [
            "/etc/two words",
            "/etc/größe – 日本",
            "/etc/it's \"$(odd)\" * \\",
            "/etc/-rf",
            &longest,
            &longest_utf8,
        ] {
            bench.converges(&file(path, "one")).await;
            bench.converges(&file(path, "two")).await;
            assert_eq!(bench.text(path).as_deref(), Some("two"), "{path}");
            bench.converges("[]").await;
            assert_eq!(bench.text(path), None, "{path}");
        }
        let levels: Vec<String> =
            deep.match_indices('/').map(|(at, _)| deep[..at].to_owned()).skip(1).collect();
        for level in levels.iter().chain([&deep]) {
            bench.ground.make(&format!("/etc{level}"), 0o755, "root");
        }
        bench.converges(&file(&format!("/etc{deep}/f"), "deep")).await;
        bench.converges("[]").await;
        let too_long = format!("/etc/{}", "n".repeat(256));
        let why = bench.failures(&file(&too_long, "x")).await;
        assert!(why[0].contains("a name has at most 255 bytes"), "{}: {why:?}", bench.ground.name());
        bench.converges("[]").await;
    }
}

#[tokio::test]
async fn what_is_owned_is_where_a_path_leads() {
    for bench in benches(None) {
        let name = bench.ground.name();
        bench.ground.put("/run/a", "a person's", 0o640, "root");
        bench.converges(&file("/var/run/a", "one")).await;
        assert_eq!(bench.text("/run/a").as_deref(), Some("one"), "{name}");
        let two_ways = r#"[
            {"id": "one", "kind": "file", "spec": {"path": "/var/run/a", "content": {"text": "1"}}},
            {"id": "two", "kind": "file", "spec": {"path": "/run/a", "content": {"text": "2"}}}]"#;
        let why = bench.failures(two_ways).await;
        assert_eq!(
            why,
            ["two: the path /run/a belongs to one (carried): one of the two has to yield"],
            "{name}"
        );
        bench.converges("[]").await;
        assert_eq!(
            (bench.text("/run/a").as_deref(), bench.meta("/run/a").as_str()),
            (Some("a person's"), "mode 0640, root:root")
        );
        // The way leads elsewhere by then: what was put down is taken up where it was.
        bench.converges(&file("/var/run/b", "one")).await;
        bench.ground.take("/var/run");
        bench.ground.make("/var/elsewhere", 0o755, "root");
        bench.ground.link("/var/run", "/var/elsewhere", "root");
        bench.converges(&file("/var/run/b", "one")).await;
        assert_eq!(
            (bench.text("/run/b"), bench.text("/var/elsewhere/b").as_deref()),
            (None, Some("one")),
            "{name}"
        );
        bench.converges("[]").await;
    }
}

#[tokio::test]
async fn a_link_is_neither_replaced_nor_followed_where_somebody_else_can_change_it() {
    for bench in benches(None) {
        let name = bench.ground.name();
        bench.ground.put("/etc/target", "kept", 0o600, "root");
        bench.ground.link("/etc/end", "/etc/target", "root");
        let why = bench.failures(&file("/etc/end", "x")).await;
        assert_eq!(why, ["f: at /etc/end is a symbolic link: remove it, or declare another path"], "{name}");
        for (link, owner) in [("/home/bob/way", "bob"), ("/home/bob/roots", "root"), ("/tmp/way", "bob")] {
            bench.ground.link(link, "/etc", owner);
            let path = format!("{link}/target");
            let why = bench.failures(&file(&path, "x")).await;
            assert!(
                why[0].contains(&format!("the symbolic link {link}, which the user bob can change"))
                    && why[0].contains("declare the path it leads to"),
                "{name}: {why:?}"
            );
            let files = bench.ground.files();
            for outcome in
                [files.read(&path).map(|_| ()), files.remove_file(&path), files.look(&path).map(|_| ())]
            {
                assert!(outcome.is_err(), "{name}: {link}");
            }
        }
        assert_eq!(bench.text("/etc/target").as_deref(), Some("kept"), "{name}");
        // What was applied stays while its folder is a link that is not to be followed, and heals.
        bench.ground.make("/home/bob/d", 0o755, "root");
        let declared = file("/home/bob/d/target", "one");
        bench.converges(&declared).await;
        bench.ground.take("/home/bob/d/target");
        bench.ground.take("/home/bob/d");
        bench.ground.link("/home/bob/d", "/etc", "bob");
        assert_eq!(bench.failures(&declared).await.len(), 1, "{name}");
        assert_eq!(bench.text("/etc/target").as_deref(), Some("kept"), "{name}");
        bench.ground.take("/home/bob/d");
        bench.ground.make("/home/bob/d", 0o755, "root");
        bench.converges(&declared).await;
        bench.converges("[]").await;
    }
}

#[tokio::test]
async fn another_name_of_the_same_file_is_not_touched() {
    for bench in benches(None) {
        let name = bench.ground.name();
        bench.ground.put("/etc/mine", "shared", 0o640, "bob");
        bench.ground.name_again("/etc/mine", "/etc/theirs");
        bench.converges(&file("/etc/mine", "shared")).await;
        assert_eq!(bench.meta("/etc/mine"), "mode 0644, root:root", "{name}");
        assert_eq!(bench.meta("/etc/theirs"), "mode 0640, bob:bob", "{name}");
        bench.converges(&file("/etc/mine", "other")).await;
        assert_eq!(bench.text("/etc/theirs").as_deref(), Some("shared"), "{name}");
        bench.converges("[]").await;
        let back = (bench.text("/etc/mine"), bench.meta("/etc/mine"));
        assert_eq!(back, (Some("shared".to_owned()), "mode 0640, bob:bob".to_owned()), "{name}");
    }
}

#[tokio::test]
async fn every_mode_bit_and_owner_is_set_by_name_or_number_and_put_back() {
    for bench in benches(None) {
        let name = bench.ground.name();
        bench.ground.put("/etc/f", "x", 0o4711, "bob");
        for mode in ["4755", "2755", "1644", "7777", "0000", "0400"] {
            bench.converges(&with("/etc/f", "x", &format!(r#", "mode": "{mode}""#))).await;
            assert_eq!(bench.meta("/etc/f"), format!("mode {mode}, root:root"), "{name}");
            // Written whole: changing the owner must not have cleared the bits.
            bench.converges(&with("/etc/f", mode, &format!(r#", "mode": "{mode}", "owner": "bob""#))).await;
            assert_eq!(bench.meta("/etc/f"), format!("mode {mode}, bob:root"), "{name}");
        }
        for owner in ["1234", "robert", "bob", "4321"] {
            bench
                .converges(&with("/etc/f", "x", &format!(r#", "owner": "{owner}", "group": "{owner}""#)))
                .await;
        }
        assert_eq!(bench.meta("/etc/f"), "mode 0644, 4321:4321", "{name}");
        let directory = r#"[{"id": "f", "kind": "directory", "spec": {"path": "/etc/d", "mode": "3770", "owner": "bob", "group": "1234"}}]"#;
        bench.converges(directory).await;
        assert_eq!(
            (bench.meta("/etc/d").as_str(), bench.meta("/etc/f").as_str()),
            ("mode 3770, bob:bob", "mode 4711, bob:bob"),
            "{name}"
        );
        bench.converges("[]").await;
        let why = bench.failures(&with("/etc/f", "new", r#", "owner": "alice""#)).await;
        assert!(why[0].contains("the machine has no user \"alice\": declare it"), "{name}: {why:?}");
        assert_eq!((bench.text("/etc/f").as_deref(), bench.leftovers()), (Some("x"), Vec::new()), "{name}");
        bench.converges("[]").await;
    }
}

#[tokio::test]
async fn what_is_no_file_and_what_has_no_folder_is_said_so() {
    for bench in benches(None) {
        let name = bench.ground.name();
        bench.ground.make_odd("/etc/odd");
        bench.ground.put("/etc/plain", "x", 0o644, "root");
        for (path, words) in [
            ("/etc/odd", "at /etc/odd is a pipe or socket: remove it, or declare another path"),
            ("/home", "at /home is a directory: remove it, or declare another path"),
            (
                "/etc/none/f",
                "there is no folder /etc/none: declare it as a directory, and let this wait for it with `after`",
            ),
            ("/etc/plain/f", "/etc/plain is not a directory: remove what is there, or declare another path"),
        ] {
            let why = bench.failures(&file(path, "x")).await;
            assert!(why.len() == 1 && why[0].contains(words), "{name}: {path}: {why:?}");
        }
        bench.converges("[]").await;
        assert_eq!(bench.text("/etc/plain").as_deref(), Some("x"), "{name}");
    }
}

/// The trouble stops a change of a file that is applied; it is said, nothing is lost, and it heals.
async fn is_said_and_heals(bench: &Bench, trouble: Trouble, at: &str, words: &str) {
    let (name, path) = (bench.ground.name(), "/etc/with space/f");
    let what = format!("{name}: {trouble:?} at {at}");
    bench.ground.make("/etc/with space", 0o755, "root");
    bench.ground.put(path, "a person's", 0o600, "root");
    bench.converges(&file(path, "one")).await;
    if !bench.ground.cause(trouble, at, true) {
        eprintln!("{what} cannot be caused here");
        bench.converges("[]").await;
        return;
    }
    let changed = file(path, "two");
    for _ in 0..2 {
        let why = bench.failures(&changed).await;
        assert!(why.len() == 1 && why[0].contains(words), "{what}: {why:?}");
    }
    let removal = bench.failures("[]").await;
    assert!(bench.ground.cause(trouble, at, false), "{what}");
    if !removal.is_empty() {
        assert!(removal[0].contains(words), "{what}: {removal:?}");
        assert_eq!(bench.text(path).as_deref(), Some("one"), "{what}");
    }
    bench.converges(&changed).await;
    assert_eq!(bench.text(path).as_deref(), Some("two"), "{what}");
    bench.converges("[]").await;
    assert_eq!(bench.text(path).as_deref(), Some("a person's"), "{what}");
    assert_eq!(bench.ground.names("/etc/with space"), ["f"], "{what}");
    bench.ground.take(path);
    bench.ground.take("/etc/with space");
}

#[tokio::test]
async fn what_is_protected_by_chattr_is_said_so_with_what_undoes_it() {
    for bench in benches(None) {
        let (file, folder) = ("/etc/with space/f", "/etc/with space");
        is_said_and_heals(
            &bench,
            Trouble::Immutable,
            file,
            "`chattr -i '/etc/with space/f'` allows it again",
        )
        .await;
        is_said_and_heals(
            &bench,
            Trouble::Immutable,
            folder,
            "`chattr -i '/etc/with space'` allows it again",
        )
        .await;
        is_said_and_heals(&bench, Trouble::AppendOnly, file, "`chattr -a '/etc/with space/f'` allows it")
            .await;
        is_said_and_heals(&bench, Trouble::AppendOnly, folder, "`chattr -a '/etc/with space'` allows it")
            .await;
    }
}

#[tokio::test]
async fn a_file_system_that_takes_nothing_is_said_so() {
    let ControlFlow::Continue(mounted) =
        real::apart("machine::files::tests::a_file_system_that_takes_nothing_is_said_so")
    else {
        return;
    };
    for bench in benches(mounted.as_deref()) {
        is_said_and_heals(&bench, Trouble::ReadOnly, "/", "is read-only: `findmnt -T '/etc/with space'`")
            .await;
        is_said_and_heals(&bench, Trouble::Full, "/", "is full: free some space (`df -h '/etc/with space'`)")
            .await;
        is_said_and_heals(&bench, Trouble::NoInodes, "/", "remove files (`df -i '/etc/with space'`)").await;
    }
}

#[tokio::test]
async fn too_many_open_files_are_said_and_pass() {
    let ControlFlow::Continue(mounted) =
        real::apart("machine::files::tests::too_many_open_files_are_said_and_pass")
    else {
        return;
    };
    for bench in benches(mounted.as_deref()) {
        bench.converges(&file("/etc/f", "one")).await;
        let files = bench.ground.files();
        assert!(bench.ground.cause(Trouble::TooManyOpen, "/", true));
        let looked = files.look("/etc/f").map(|_| ()).map_err(|why| why.to_string());
        assert!(bench.ground.cause(Trouble::TooManyOpen, "/", false));
        let why = looked.expect_err("no descriptor was left");
        assert!(why.contains("raise LimitNOFILE= of mesh-host.service"), "{}: {why}", bench.ground.name());
        bench.converges(&file("/etc/f", "two")).await;
        bench.converges("[]").await;
    }
}

#[test]
fn more_files_than_a_process_may_open_are_written_at_once() {
    for bench in benches(None) {
        let count = 1500;
        for folder in 0..count / 5 {
            bench.ground.make(&format!("/etc/{folder}"), 0o755, "root");
        }
        let meta = crate::machine::fake::root(0o644);
        let content = super::Content::new(b"x");
        let writes: Vec<super::Write> = (0..count)
            .map(|n| super::Write {
                path: format!("/etc/{}/{n}", n / 5),
                content: content.clone(),
                meta: meta.clone(),
            })
            .collect();
        let outcomes = bench.ground.files().write(&writes);
        let failed: Vec<_> = outcomes.into_iter().filter_map(Result::err).take(3).collect();
        assert!(failed.is_empty(), "{}: {failed:?}", bench.ground.name());
    }
}

#[test]
fn what_a_kill_left_beside_a_file_is_swept_and_nothing_else() {
    for bench in benches(None) {
        bench.ground.put("/etc/f", "x", 0o644, "root");
        bench.ground.put("/etc/.mesh-host-new-other", "a person's", 0o644, "root");
        bench.ground.files().sweep("/etc/f");
        bench.ground.files().sweep("/none/f");
        assert_eq!(bench.leftovers(), [".mesh-host-new-other"], "{}", bench.ground.name());
        assert_eq!(bench.text("/etc/f").as_deref(), Some("x"));
    }
}
