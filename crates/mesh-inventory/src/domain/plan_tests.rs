//! Plans: what they say, when they are refused, and that they are pure.

#![expect(clippy::unwrap_used, reason = "tests")]

use mesh_manifest::{Catalogue, Manifest};
use proptest::prelude::*;

use super::*;

fn module(name: &str, placement: &str, body: &str) -> Arc<Module> {
    let text = format!("name = '{name}'\nversion = '1'\nplacement = {placement}\n{body}");
    let manifest = Manifest::from_toml("m", &text, |_| Err(String::new())).unwrap();
    Arc::new(Module::resolve(manifest, &Catalogue::default()).unwrap())
}

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

fn world(nodes: usize) -> World {
    let joined = || WorldNode { joined: true, state: NodeState::Connected, carried: BTreeSet::new() };
    World {
        nodes: (1..=nodes).map(|number| (node(&format!("node-{number}")), joined())).collect(),
        modules: BTreeMap::new(),
    }
}

impl World {
    fn with(mut self, module: &Arc<Module>) -> Self {
        let nodes = plan_apply(&self, module).unwrap().placed;
        self.modules.insert(module.name().clone(), PlacedModule { module: Arc::clone(module), nodes });
        self
    }
}

const FILE: &str = "[[file]]\npath='/etc/a'\ncontent='x'\n";

fn container(port: u16) -> String {
    format!(
        "[[container]]\nname='web'\nimage='x@sha256:{}'\nports=[{{host={port},container=80}}]\n",
        "0".repeat(64)
    )
}

fn told(plan: &Plan) -> Vec<String> {
    let step = |node: &NodeName, step: &PlannedStep| {
        format!("{node} {:?} {} ({})", step.action, step.resource, step.details.join(", "))
    };
    plan.nodes.iter().flat_map(|plan| plan.steps.iter().map(|s| step(&plan.node, s))).collect()
}

#[test]
fn a_plan_says_what_comes_what_changes_and_what_goes() {
    let first = module("a", "{nodes=['node-1','node-2']}", &format!("{FILE}[[directory]]\npath='/srv/a'\n"));
    let plan = plan_apply(&world(3), &first).unwrap();
    assert_eq!(
        told(&plan),
        [
            "node-1 Add a/directory:/srv/a (mode 0755)",
            "node-1 Add a/file:/etc/a (mode 0644, 1 bytes)",
            "node-2 Add a/directory:/srv/a (mode 0755)",
            "node-2 Add a/file:/etc/a (mode 0644, 1 bytes)",
        ]
    );
    let world = world(3).with(&first);
    assert!(plan_apply(&world, &first).unwrap().in_force);
    let second = module("a", "{nodes=['node-2','node-3']}", &FILE.replace("'x'", "'yy'"));
    let plan = plan_apply(&world, &second).unwrap();
    assert_eq!(
        told(&plan),
        [
            "node-1 Remove a/file:/etc/a ()",
            "node-1 Remove a/directory:/srv/a ()",
            "node-2 Remove a/directory:/srv/a ()",
            "node-2 Change a/file:/etc/a (content.text: 1 bytes become 2 others)",
            "node-3 Add a/file:/etc/a (mode 0644, 2 bytes)",
        ]
    );
    assert_eq!(
        told(&plan_removal(&world.with(&second), &"a".parse().unwrap()).unwrap()),
        ["node-2 Remove a/file:/etc/a ()", "node-3 Remove a/file:/etc/a ()"]
    );
}

#[test]
fn what_is_carried_or_taken_is_refused_naming_the_holder() {
    let mut world = world(2);
    world.nodes.get_mut(&node("node-1")).unwrap().carried.insert(5671);
    let refused = plan_apply(&world, &module("a", "{every_node=true}", &container(5671))).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a/container:web cannot have the port 5671 on node-1: what node-1 carries from its bundle holds it"
    );
    let world = world.with(&module("a", "{nodes=['node-2']}", &format!("{}{FILE}", container(80))));
    for (body, words) in [
        (container(80), "b/container:web cannot have the port 80 on node-2: a/container:web has it"),
        (FILE.to_owned(), "b/file:/etc/a cannot have the path /etc/a on node-2: a/file:/etc/a has it"),
    ] {
        let refused = plan_apply(&world, &module("b", "{every_node=true}", &body)).unwrap_err();
        assert_eq!(refused.to_string(), words);
        assert!(plan_apply(&world, &module("b", "{nodes=['node-1']}", &body)).is_ok());
    }
    let world = world.with(&module("u", "{every_node=true}", "[[unit]]\nname='u.service'\nactive=true\n"));
    let refused = plan_apply(&world, &module("v", "{count=1}", "[[unit]]\nname='u.service'\nactive=true\n"));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "v/unit:u.service cannot have the unit u.service on node-1: u/unit:u.service has it"
    );
}

#[test]
fn a_count_is_placed_around_what_is_held() {
    let mut world = world(3);
    world.nodes.get_mut(&node("node-1")).unwrap().carried.insert(8443);
    let world = world.with(&module("a", "{nodes=['node-2']}", &container(8443)));
    let plan = plan_apply(&world, &module("b", "{count=1}", &container(8443))).unwrap();
    assert_eq!(plan.placed, [node("node-3")].into());
    assert!(matches!(
        plan_apply(&world, &module("b", "{count=2}", &container(8443))),
        Err(Refusal::PortCarried { port: 8443, .. })
    ));
}

#[test]
fn a_module_that_leaves_no_room_in_the_declaration_of_a_node_is_refused_with_what_to_do() {
    let file = |content: &str| format!("[[file]]\npath='/etc/big'\ncontent=\"{content}\"\n");
    let escaped = module("a", "{nodes=['node-1']}", &file(&"\\u0001".repeat(1024 * 1024)));
    let refused = plan_apply(&world(1), &escaped).unwrap_err().to_string();
    assert!(
        refused.starts_with("a has no room on node-1: the declaration of node-1 would be 84"),
        "{refused}"
    );
    assert!(
        refused.contains("0 of them for other modules, and a host reads 4194304 at most; make"),
        "{refused}"
    );

    // Each has room alone, and three of them together.
    let ordinary = |name: &str, placement: &str| {
        module(name, placement, &file(&"x".repeat(1_000_000)).replace("/etc/big", &format!("/etc/{name}")))
    };
    let full = ["a", "b", "c"].iter().fold(world(2), |w, name| w.with(&ordinary(name, "{nodes=['node-1']}")));
    let refused = plan_apply(&full, &ordinary("d", "{nodes=['node-1']}")).unwrap_err();
    assert!(matches!(refused, Refusal::TooLarge { size: 5_000_000..6_000_000, others: 3_900_000.., .. }));
    assert_eq!(plan_apply(&full, &ordinary("d", "{count=1}")).unwrap().placed, [node("node-2")].into());
    assert!(plan_apply(&full, &ordinary("c", "{nodes=['node-1']}")).unwrap().in_force, "not counted twice");
    assert!(plan_removal(&full, &"c".parse().unwrap()).is_ok());
}

#[test]
fn what_does_not_exist_is_refused_by_name() {
    let refused = plan_apply(&world(2), &module("a", "{nodes=['node-9']}", FILE)).unwrap_err();
    assert_eq!(refused.to_string(), "there is no node node-9; there are node-1, node-2");
    let refused = plan_removal(&world(2), &"a".parse().unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), "there is no module a");
    let refused = plan_apply(&world(1), &module("a", "{count=2}", FILE)).unwrap_err();
    assert_eq!(refused.to_string(), "it is to be on 2 nodes and 1 can have it");
}

#[test]
fn the_index_is_that_of_this_change_to_this_world() {
    let first = module("a", "{count=1}", FILE);
    let other = module("a", "{count=1}", &FILE.replace("'x'", "'y'"));
    let index = |world: &World, module| plan_apply(world, module).unwrap().index;
    let new = index(&world(2), &first);
    assert_eq!(new, index(&world(2), &first));
    assert_ne!(new, index(&world(2), &other), "same size, other content");
    assert_ne!(new, index(&world(2).with(&other), &first), "another version is in force");
    let elsewhere = world(2).with(&module("b", "{nodes=['node-2']}", "[[directory]]\npath='/b'\n"));
    assert_eq!(new, index(&elsewhere, &first), "what does not matter to it may change");
    let fuller = world(2).with(&module("b", "{nodes=['node-1']}", "[[directory]]\npath='/b'\n"));
    assert_ne!(new, index(&fuller, &first), "it would be on another node");
}

proptest! {
    #[test]
    fn a_plan_in_force_changes_nothing_and_is_the_same_again(
        nodes in 1usize..6, wanted in 1u32..4, contents in prop::collection::vec("[a-z]{1,4}", 1..5), taken in 0usize..6
    ) {
        let mut world = world(nodes);
        if let Some(held) = world.nodes.get_mut(&node(&format!("node-{taken}"))) {
            held.carried.insert(80);
        }
        let files = contents.iter().enumerate().map(|(n, content)| {
            format!("[[file]]\npath='/etc/{n}'\ncontent='{content}'\n")
        });
        let module = module("a", &format!("{{count={wanted}}}"), &(container(80) + &files.collect::<String>()));
        let first = plan_apply(&world, &module);
        prop_assert_eq!(&first, &plan_apply(&world.clone(), &module));
        if let Ok(plan) = first {
            prop_assert_eq!(plan.nodes.len(), wanted as usize);
            let held = node(&format!("node-{taken}"));
            prop_assert!(!plan.placed.contains(&held));
            let world = world.with(&module);
            let again = plan_apply(&world, &module).unwrap();
            prop_assert!(again.in_force && again.nodes.is_empty() && again.placed == plan.placed);
        }
    }
}
