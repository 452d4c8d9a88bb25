//! How a machine becomes nobody's again: what the mesh assigned comes off, what stood there before comes back, and the
//! host's own traces go last.
//!
//! Killed at any point, the same command goes on from there: nothing is forgotten before what it describes is gone, and
//! the ledger goes after everything else. What stays is named, with the reason. Called by `mesh-host leave`.

use std::collections::BTreeSet;

use mesh_wire::Spec;

use crate::{
    failure::Failure,
    host::Host,
    intake::Trust,
    keys::NodeKeys,
    ledger::Origin,
    link_file::{self, LinkFile},
    machine::{Machine, traces},
    paths::Paths,
    service,
    step::Step,
};

/// Why it did not leave.
#[derive(Debug, thiserror::Error)]
pub enum LeaveError {
    /// It may not be done now.
    #[error("{0}")]
    Refused(Failure),
    /// It failed; the same command goes on from there.
    #[error("{0}")]
    Failed(#[from] Failure),
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Whether the machine was a node until now.
    pub was_a_node: bool,
    /// What is left of the host's and of what it put there, each with the reason.
    pub stays: Vec<String>,
}

/// Takes everything assigned off the machine, and with `carried` everything it carries; where nothing is left to keep, the
/// host's own service and folders, too.
pub async fn leave(
    paths: &Paths,
    machine: &Machine,
    trust: Option<Trust>,
    carried: bool,
    tell: &mut dyn FnMut(&str, &Step),
) -> Result<Left, LeaveError> {
    // A link file that cannot be read is left, too.
    let was_a_node = LinkFile::read(paths).map_or(true, |link| link.is_some());
    let mut host = Host::open(paths, machine.clone(), trust).await?;
    host.refuse_unreadable("nothing was removed and nothing forgotten").map_err(LeaveError::Refused)?;
    // The daemon before anything else: it would bring back what is removed.
    service::stop(machine).await?;
    let promised = Promised::of(&host, carried);
    let outcome = host.remove_all(carried, &mut |_, id, step| tell(id.as_str(), step)).await?;
    let left: Vec<String> = outcome.failed.iter().map(|((_, id), why)| format!("{id}: {why}")).collect();
    let left_of = |origin: Origin| host.memory().entries.keys().any(|(of, _)| *of == origin);
    let keeps = left_of(Origin::Carried);
    if left_of(Origin::Assigned) || (carried && keeps) {
        let why =
            format!("something could not be removed, so nothing was forgotten:\n  {}", left.join("\n  "));
        return Err(Failure::new(why).into());
    }
    let mut stays = promised.stays(machine).await;
    host.forget_assigned()?;
    link_file::forget(paths)?;
    NodeKeys::remove(paths)?;
    if keeps {
        service::start(machine).await?;
        stays.push(format!(
            "{}, the unit {} and the ledger: this machine keeps what it carries; 'mesh-host leave --carried' removes it",
            paths.state().display(),
            service::NAME
        ));
        return Ok(Left { was_a_node, stays });
    }
    service::remove(machine).await?;
    machine.program.forget()?;
    let held = host.close().await?;
    stays.extend(traces::remove(paths, held)?);
    Ok(Left { was_a_node, stays })
}

/// What stays of the resources that are removed, by the promise of their kinds.
#[derive(Default)]
struct Promised {
    volumes: BTreeSet<String>,
    packages: BTreeSet<String>,
}

impl Promised {
    /// By what is remembered before the removal.
    fn of(host: &Host, carried: bool) -> Self {
        let mut promised = Self::default();
        let going =
            host.memory().entries.values().filter(|entry| carried || entry.origin == Origin::Assigned);
        for entry in going {
            match &entry.resource.spec {
                Spec::Volume(volume) => promised.volumes.extend([volume.name.clone()]),
                Spec::Package(package) => promised.packages.extend(package.names.iter().cloned()),
                _ => {}
            }
        }
        promised
    }

    /// By what is there after it.
    async fn stays(self, machine: &Machine) -> Vec<String> {
        let volume = |name: &String| {
            format!("the volume {name}: its data is yours; 'podman volume rm {name}' removes it for good")
        };
        let mut stays: Vec<String> = self.volumes.iter().map(volume).collect();
        if !self.packages.is_empty()
            && let Ok(installed) = machine.packages.look().await
        {
            let gone: Vec<&str> = self
                .packages
                .iter()
                .map(String::as_str)
                .filter(|name| !installed.contains_key(*name))
                .collect();
            let gone = gone.join(" ");
            if !gone.is_empty() {
                stays.push(format!(
                    "what was configured for packages ({gone}): 'apt-get purge {gone}' removes it"
                ));
            }
        }
        stays
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, panic::AssertUnwindSafe, rc::Rc};

    use futures_util::FutureExt as _;

    use super::*;
    use crate::{
        contract::resources,
        keys::write_private,
        machine::{
            engine::NoEngine,
            fake::{Killed, World},
        },
        test_mesh::TestMesh,
    };

    const ASSIGNED: &str = r#"[
        {"id": "file:motd", "kind": "file", "spec": {"path": "/etc/motd", "content": {"text": "of the mesh"}}},
        {"id": "directory:a", "kind": "directory", "spec": {"path": "/etc/a"}},
        {"id": "unit:x", "kind": "unit", "spec": {"name": "x.service", "content": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"}}
    ]"#;

    struct Node {
        root: tempfile::TempDir,
        world: Rc<World>,
        mesh: TestMesh,
        before: String,
    }

    impl Node {
        /// A machine with something of its own that joined, was assigned things, and has its unit.
        async fn joined() -> Self {
            let (root, world, mesh) =
                (tempfile::tempdir().expect("a folder"), World::bare(), TestMesh::new());
            world.put("/etc/motd", "of the machine", 0o640);
            let before = world.picture();
            let node = Self { root, world, mesh, before };
            let (paths, machine) = (node.paths(), node.machine());
            NodeKeys::make(&paths, "t1").expect("keys");
            write_private(&paths.link_file(), b"{}").expect("a link file");
            let mut host = node.host().await;
            let frame = node.mesh.with(1, 1, &resources(ASSIGNED));
            host.accept(&frame).await.expect("it is followed");
            let outcome = host.round(&mut |_, _, _| {}).await.expect("a round");
            assert!(outcome.failed.is_empty(), "{outcome:?}");
            service::install(&machine).await.expect("the service");
            // As the running host keeps them.
            fs::create_dir_all(paths.status().parent().expect("a folder")).expect("a folder");
            fs::write(paths.status(), "{}").expect("a status");
            node
        }

        fn paths(&self) -> Paths {
            Paths::under(self.root.path())
        }

        fn machine(&self) -> Machine {
            self.world.machine(Rc::new(NoEngine))
        }

        async fn host(&self) -> Host {
            let trust = Some(self.mesh.trust.clone());
            Host::open(&self.paths(), self.machine(), trust).await.expect("it opens")
        }

        async fn leave(&self) -> Result<Left, LeaveError> {
            leave(&self.paths(), &self.machine(), None, false, &mut |_, _| {}).await
        }

        /// Whether the machine is as it was before it joined.
        fn assert_left(&self, when: &str) {
            assert_eq!(self.world.picture(), self.before, "{when}");
            for place in [self.paths().state(), self.paths().status()] {
                assert!(!place.exists(), "{when}: {} is left", place.display());
            }
        }
    }

    #[tokio::test]
    async fn a_machine_that_left_is_as_it_was_and_leaving_again_changes_nothing() {
        let node = Node::joined().await;
        assert_ne!(node.world.picture(), node.before);
        let left = node.leave().await.expect("it leaves");
        assert_eq!((left.was_a_node, left.stays.len()), (true, 0), "{left:?}");
        node.assert_left("after leaving");
        assert!(!node.leave().await.expect("it leaves").was_a_node);
        node.assert_left("after leaving again");
    }

    #[tokio::test]
    async fn leaving_that_was_killed_anywhere_is_finished_by_the_next() {
        let mut killed = 0;
        for k in 1.. {
            let node = Node::joined().await;
            node.world.faults.kill_after(k);
            let run = AssertUnwindSafe(node.leave()).catch_unwind().await;
            let happened = node.world.faults.count() >= k;
            node.world.faults.none();
            match run {
                Err(end) if end.downcast_ref() == Some(&Killed) => killed += 1,
                Err(end) => std::panic::resume_unwind(end),
                Ok(left) => {
                    assert!(!happened && left.is_ok(), "{left:?}");
                    break;
                }
            }
            node.leave().await.expect("it leaves");
            node.assert_left(&format!("killed after operation {k}"));
        }
        assert!(killed > 10, "only {killed} operations");
    }

    #[tokio::test]
    async fn what_could_not_be_removed_is_not_forgotten() {
        let mut remembered = 0;
        for k in 1.. {
            let node = Node::joined().await;
            node.world.faults.fail_at(k);
            let outcome = node.leave().await;
            let happened = node.world.faults.count() >= k;
            node.world.faults.none();
            if !happened {
                break;
            }
            if outcome.is_err() {
                assert!(node.paths().ledger().exists(), "operation {k}: the ledger is gone, the rest is not");
                remembered += u32::from(node.paths().link_file().exists());
                node.leave().await.expect("it leaves");
            }
            node.assert_left(&format!("after operation {k} failed"));
        }
        assert!(remembered > 3, "only {remembered} failures before anything was forgotten");
    }

    #[tokio::test]
    async fn a_machine_that_carries_keeps_its_host_and_says_so() {
        let node = Node::joined().await;
        let carried =
            r#"[{"id": "file:c", "kind": "file", "spec": {"path": "/etc/c", "content": {"text": "c"}}}]"#;
        node.host().await.carry(resources(carried), &mut |_, _, _| {}).await.expect("carried");
        let left = node.leave().await.expect("it leaves");
        assert!(left.stays.iter().any(|stays| stays.contains("leave --carried")), "{left:?}");
        assert_eq!(node.world.text("/etc/c").as_deref(), Some("c"));
        assert_eq!(node.world.text("/etc/motd").as_deref(), Some("of the machine"));
        assert!(node.paths().ledger().exists() && !node.paths().link_file().exists());
        // Secrets of a mesh it raised outlive it: the data in its volumes is of no use without them.
        write_secret(&node.paths());
        let machine = node.machine();
        let left = leave(&node.paths(), &machine, None, true, &mut |_, _| {}).await.expect("it leaves");
        assert!(left.stays.iter().any(|stays| stays.contains("secrets")), "{left:?}");
        assert_eq!(node.world.picture(), node.before);
        let names: Vec<_> = fs::read_dir(node.paths().state()).expect("the folder").flatten().collect();
        assert!(names.len() == 1 && names[0].file_name() == "secrets", "{names:?}");
    }

    fn write_secret(paths: &Paths) {
        fs::create_dir_all(paths.secrets()).expect("a folder");
        write_private(&paths.secrets().join("ca.key"), b"secret").expect("a secret");
    }
}
