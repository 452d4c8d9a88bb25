//! Modules are planned, applied, placed, declared and removed.

use std::sync::Arc;

use mesh_events::IdentityEvent;
use mesh_ids::ModuleName;
use mesh_inventory::{Error, ErrorKind, InstanceState, PlanIndex, Refusal};

use crate::{Mesh, admin, hello, manifest, node, position, report};
use mesh_authz::Principal;

fn name() -> ModuleName {
    "hello".parse().unwrap()
}

impl Mesh {
    async fn two_nodes() -> Self {
        let mesh = Self::new().await;
        mesh.join("node-1").await;
        mesh.join("node-2").await;
        mesh
    }

    async fn states(&self) -> Vec<(String, InstanceState)> {
        let modules = self.inventory.modules(&admin()).await.unwrap();
        modules
            .iter()
            .flat_map(|module| {
                module.instances.iter().map(|at| (format!("{} on {}", module.name, at.node), at.state))
            })
            .collect()
    }

    async fn declared(&self, name: &str) -> Vec<String> {
        let declared = self.again().declare(&node(name)).await.unwrap();
        declared.resources.iter().map(|resource| resource.id.to_string()).collect()
    }

    async fn issue(&self, name: &str, sequence: u64) {
        let declared = self.inventory.declare(&node(name)).await.unwrap();
        self.inventory.note_issued(&node(name), declared.revision, position(sequence)).await.unwrap();
    }
}

#[tokio::test]
async fn a_plan_is_applied_as_planned_and_again_is_nothing() {
    let mesh = Mesh::two_nodes().await;
    let plan = mesh.plan(&hello("x")).await;
    assert_eq!(plan.changed(), [node("node-1"), node("node-2")]);
    let applied = mesh.inventory.apply(&admin(), hello("x"), &plan.index).await.unwrap();
    assert_eq!(applied.nodes, [node("node-1"), node("node-2")]);
    assert_eq!(mesh.declared("node-1").await, ["hello/file:/etc/hello"]);
    assert!(mesh.plan(&hello("x")).await.nodes.is_empty());
    let again = mesh.again().apply(&admin(), hello("x"), &plan.index).await.unwrap();
    assert_eq!(
        (again.nodes, again.position),
        (Vec::new(), applied.position),
        "asked again for want of an answer"
    );
    assert_eq!(mesh.events().await, ["admin applied hello 1.0.0: changes node-1, node-2"]);
}

#[tokio::test]
async fn a_plan_of_a_world_that_moved_is_refused() {
    let mesh = Mesh::two_nodes().await;
    let (first, second) = (mesh.plan(&hello("x")).await, mesh.plan(&hello("y")).await);
    mesh.inventory.apply(&admin(), hello("y"), &second.index).await.unwrap();
    let refused = mesh.inventory.apply(&admin(), hello("x"), &first.index).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WorldMoved);
    let refused = mesh.inventory.apply(&admin(), hello("z"), &PlanIndex::from_text("")).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::WorldMoved)));
    let removal = mesh.inventory.plan_removal(&admin(), &name()).await.unwrap();
    mesh.apply(&hello("z")).await;
    let refused = mesh.inventory.remove_module(&admin(), &name(), &removal.index).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WorldMoved);
    assert_eq!(mesh.declared("node-1").await, ["hello/file:/etc/hello"]);
}

#[tokio::test]
async fn of_many_that_apply_at_once_one_is_first_and_the_world_moved_for_the_others() {
    let mesh = Mesh::two_nodes().await;
    let mut racing = Vec::new();
    let start = Arc::new(tokio::sync::Barrier::new(5));
    for content in ["1", "2", "3", "4", "5"] {
        let (other, start) = (mesh.again(), Arc::clone(&start));
        let plan = other.plan_apply(&admin(), hello(content)).await.unwrap();
        racing.push(tokio::spawn(async move {
            start.wait().await;
            other.apply(&admin(), hello(content), &plan.index).await.map_err(|error| error.kind())
        }));
    }
    let mut first = 0;
    for race in racing {
        match race.await.unwrap() {
            Ok(_) => first += 1,
            Err(kind) => assert_eq!(kind, ErrorKind::WorldMoved),
        }
    }
    assert_eq!((first, mesh.events().await.len()), (1, 1));
}

#[tokio::test]
async fn two_that_have_room_alone_and_not_together_are_not_both_applied() {
    let mesh = Mesh::two_nodes().await;
    let start = Arc::new(tokio::sync::Barrier::new(2));
    let mut racing = Vec::new();
    for name in ["one", "two"] {
        let content = format!("[[file]]\npath='/etc/{name}'\ncontent=\"{}\"\n", "\\u0001".repeat(300_000));
        let (other, start) = (mesh.again(), Arc::clone(&start));
        let manifest = manifest(name, "{nodes=['node-1']}", &content);
        let plan = other.plan_apply(&admin(), manifest.clone()).await.unwrap();
        racing.push(tokio::spawn(async move {
            start.wait().await;
            other.apply(&admin(), manifest, &plan.index).await.map_err(|error| error.to_string())
        }));
    }
    let mut refused = Vec::new();
    for race in racing {
        refused.extend(race.await.unwrap().err());
    }
    assert_eq!(refused.len(), 1);
    assert!(
        refused[0].contains("has no room on node-1: the declaration of node-1 would be 4"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_declaration_carries_what_was_decided_before_it_and_nothing_later() {
    let mesh = Mesh::two_nodes().await;
    mesh.apply(&hello("x")).await;
    let declared = mesh.inventory.declare(&node("node-1")).await.unwrap();
    mesh.apply(&hello("y")).await;
    mesh.inventory.note_issued(&node("node-1"), declared.revision, position(2)).await.unwrap();
    mesh.report("node-1", 1, 2).await;
    assert_eq!(mesh.states().await[0].1, InstanceState::Pending, "declared was x, in force is y");
    mesh.issue("node-1", 3).await;
    mesh.report("node-1", 2, 3).await;
    assert_eq!(mesh.states().await[0].1, InstanceState::Applied);
}

#[tokio::test]
async fn what_cannot_be_declared_is_told_once_and_seen_until_it_is_declared() {
    let mesh = Mesh::two_nodes().await;
    mesh.apply(&hello("x")).await;
    for _ in 0..2 {
        mesh.inventory.note_undeclared(&node("node-1"), "it is too large").await.unwrap();
    }
    let seen = mesh.inventory.node(&admin(), &node("node-1")).await.unwrap();
    assert_eq!(seen.refused.as_deref(), Some("it is too large"));
    let module = mesh.inventory.module(&admin(), &name()).await.unwrap();
    assert_eq!(module.instances[0].state, InstanceState::Failed);
    assert_eq!(module.instances[0].failed["declaration"], "it is too large");
    assert_eq!(module.instances[1].state, InstanceState::Pending, "the other node is told");
    for sequence in [2, 3] {
        mesh.issue("node-1", sequence).await;
    }
    assert_eq!(mesh.inventory.node(&admin(), &node("node-1")).await.unwrap().refused, None);
    assert_eq!(mesh.states().await[0].1, InstanceState::Pending);
    assert_eq!(
        mesh.events().await[1..],
        [
            "what is to be on node-1 cannot be declared: it is too large",
            "what is to be on node-1 can be declared again"
        ]
    );
}

#[tokio::test]
async fn an_instance_is_pending_then_applied_then_removing_then_gone() {
    let mesh = Mesh::two_nodes().await;
    mesh.apply(&hello("x")).await;
    let both = |one, two| vec![("hello on node-1".to_owned(), one), ("hello on node-2".to_owned(), two)];
    assert_eq!(mesh.states().await, both(InstanceState::Pending, InstanceState::Pending));
    mesh.report("node-1", 1, 1).await;
    assert_eq!(mesh.states().await[0].1, InstanceState::Pending, "the report speaks of what was before");
    for name in ["node-1", "node-2"] {
        mesh.issue(name, 2).await;
    }
    mesh.report("node-1", 2, 2).await;
    let mut failed = report("node-2", 1);
    failed.position = Some(position(2));
    failed.failed = [("hello/file:/etc/hello".to_owned(), "read-only".to_owned())].into();
    mesh.inventory.record_report(&failed).await.unwrap();
    assert_eq!(mesh.states().await, both(InstanceState::Applied, InstanceState::Failed));

    mesh.apply(&hello("y")).await;
    assert_eq!(mesh.states().await, both(InstanceState::Pending, InstanceState::Pending));
    let plan = mesh.inventory.plan_removal(&admin(), &name()).await.unwrap();
    let removed = mesh.inventory.remove_module(&admin(), &name(), &plan.index).await.unwrap();
    assert_eq!(removed.nodes, [node("node-1"), node("node-2")]);
    mesh.report("node-1", 3, 2).await;
    assert_eq!(mesh.states().await, both(InstanceState::Removing, InstanceState::Removing));
    assert!(mesh.declared("node-1").await.is_empty());
    let again = mesh.inventory.plan_removal(&admin(), &name()).await.unwrap();
    assert!(again.nodes.is_empty(), "what is leaving is removed already");
    for (name, count) in [("node-1", 4), ("node-2", 2)] {
        mesh.issue(name, 3).await;
        mesh.report(name, count, 3).await;
    }
    assert!(mesh.inventory.modules(&admin()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_removal_asked_for_again_does_nothing_and_of_what_never_was_there_is_none() {
    let mesh = Mesh::two_nodes().await;
    let absent = mesh.inventory.plan_removal(&admin(), &name()).await.unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::NotFound);
    mesh.apply(&hello("x")).await;
    let plan = mesh.inventory.plan_removal(&admin(), &name()).await.unwrap();
    let removed = mesh.inventory.remove_module(&admin(), &name(), &plan.index).await.unwrap();
    let recorded = mesh.events().await;
    // While it is leaving, with the index of the lost answer; and once it is gone, planned again.
    let again = mesh.again().remove_module(&admin(), &name(), &plan.index).await.unwrap();
    assert_eq!((again.nodes, again.position), (Vec::new(), removed.position));
    for name in ["node-1", "node-2"] {
        mesh.issue(name, 2).await;
        mesh.report(name, 1, 2).await;
    }
    assert!(mesh.inventory.modules(&admin()).await.unwrap().is_empty());
    let plan = mesh.inventory.plan_removal(&admin(), &name()).await.unwrap();
    assert!(plan.nodes.is_empty());
    let again = mesh.inventory.remove_module(&admin(), &name(), &plan.index).await.unwrap();
    assert_eq!(again.nodes, []);
    assert_eq!(mesh.events().await[..recorded.len()], recorded);
    assert_eq!(mesh.events().await.iter().filter(|said| said.contains("removed hello")).count(), 1);
}

#[tokio::test]
async fn a_module_has_no_instance_on_a_node_that_was_removed() {
    let mesh = Mesh::two_nodes().await;
    mesh.apply(&hello("x")).await;
    let removed = |name| IdentityEvent::NodeRemoved { node: node(name), by: "admin".to_owned() };
    mesh.identity_says(removed("node-1")).await;
    assert_eq!(mesh.states().await, [("hello on node-2".to_owned(), InstanceState::Pending)]);
    // Also where it was leaving, and waited for the node's word: nobody will give it.
    let plan = mesh.inventory.plan_removal(&admin(), &name()).await.unwrap();
    assert_eq!(plan.changed(), [node("node-2")]);
    mesh.inventory.remove_module(&admin(), &name(), &plan.index).await.unwrap();
    mesh.identity_says(removed("node-2")).await;
    assert!(mesh.inventory.modules(&admin()).await.unwrap().is_empty());
    mesh.join("node-1").await;
    assert!(mesh.declared("node-1").await.is_empty(), "another machine of the name begins with nothing");
}

#[tokio::test]
async fn a_name_that_the_interface_uses_itself_is_refused() {
    let mesh = Mesh::two_nodes().await;
    let watch = manifest("watch", "{nodes=['node-1']}", "[[directory]]\npath='/a'\n");
    let refused = mesh.inventory.plan_apply(&admin(), watch).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused(Refusal::Reserved { .. })), "{refused}");
    assert!(refused.to_string().contains("choose another name"), "{refused}");
}

#[tokio::test]
async fn a_module_that_comes_back_while_it_leaves_is_there() {
    let mesh = Mesh::two_nodes().await;
    mesh.apply(&hello("x")).await;
    let plan = mesh.inventory.plan_removal(&admin(), &name()).await.unwrap();
    mesh.inventory.remove_module(&admin(), &name(), &plan.index).await.unwrap();
    mesh.issue("node-1", 3).await;
    mesh.apply(&hello("x")).await;
    mesh.report("node-1", 3, 3).await;
    assert_eq!(mesh.declared("node-1").await, ["hello/file:/etc/hello"]);
    assert_eq!(mesh.states().await[0].1, InstanceState::Pending);
}

#[tokio::test]
async fn modules_follow_the_nodes_that_come_and_go() {
    let mesh = Mesh::two_nodes().await;
    mesh.hear("node-1", 0).await;
    mesh.hear("node-2", 0).await;
    let directory = |path: &str| format!("[[directory]]\npath='{path}'\n");
    mesh.apply(&manifest("every", "{every_node=true}", &directory("/srv/every"))).await;
    mesh.apply(&manifest("one", "{count=1}", &directory("/srv/one"))).await;
    assert!(mesh.inventory.place_modules().await.unwrap().is_empty());
    mesh.join("node-3").await;
    assert_eq!(mesh.inventory.place_modules().await.unwrap(), [node("node-3")]);
    assert_eq!(mesh.declared("node-3").await, ["every/directory:/srv/every"]);
    assert_eq!(mesh.declared("node-1").await, ["every/directory:/srv/every", "one/directory:/srv/one"]);
    mesh.identity_says(IdentityEvent::NodeRemoved { node: node("node-1"), by: "admin".to_owned() }).await;
    assert_eq!(mesh.inventory.place_modules().await.unwrap(), [node("node-2")]);
    assert_eq!(mesh.declared("node-2").await, ["every/directory:/srv/every", "one/directory:/srv/one"]);
    assert_eq!(
        mesh.events().await[4..],
        [
            "every follows the nodes that came or went: changes node-3",
            "one follows the nodes that came or went: changes node-2"
        ]
    );
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_changes_nothing() {
    let mesh = Mesh::two_nodes().await;
    let mut carries = report("node-1", 1);
    carries.carried = vec![8443];
    mesh.inventory.record_report(&carries).await.unwrap();
    let web = |image: &str| {
        let body =
            format!("[[container]]\nname='web'\nimage='{image}'\nports=[{{host=8443,container=80}}]\n");
        manifest("web", "{nodes=['node-1']}", &body)
    };
    let refused = mesh.inventory.plan_apply(&admin(), web("mesh/hello")).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::PortCarried { port: 8443, .. })));
    let refused = mesh.inventory.plan_apply(&admin(), web("mesh/nope")).await.unwrap_err();
    assert!(refused.to_string().contains("the mesh carries no image \"mesh/nope\""), "{refused}");
    let elsewhere = manifest("a", "{nodes=['node-9']}", "[[directory]]\npath='/a'\n");
    let refused = mesh.inventory.apply(&admin(), elsewhere, &PlanIndex::from_text("")).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no node node-9; there are node-1, node-2");
    let plan = mesh.plan(&hello("x")).await;
    let denied = mesh.inventory.apply(&Principal::Anonymous, hello("x"), &plan.index).await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied);
    assert!(mesh.inventory.modules(&admin()).await.unwrap().is_empty());
    assert_eq!(mesh.inventory.declare(&node("node-9")).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn what_a_file_holds_is_kept_to_the_byte() {
    let mesh = Mesh::two_nodes().await;
    let text = "name='odd'\nversion='1'\nplacement.every_node=true\n[[file]]\npath='/odd'\ncontent=\"\\u0000\\u2603\\n\"\n";
    let odd = mesh_manifest::Manifest::from_toml("m", text, |_| Err(String::new())).unwrap();
    mesh.apply(&odd).await;
    let declared = mesh.again().declare(&node("node-1")).await.unwrap();
    let mesh_wire::kinds::Spec::File(file) = &declared.resources[0].spec else { panic!("{declared:?}") };
    assert_eq!(file.content.bytes().unwrap(), "\0\u{2603}\n".as_bytes());
}
