//! One container in the place of another, on a real Podman: renamed, judged, kept, put back.

use mesh_host::{
    kinds::{Kind as _, container::Container, network::Network},
    machine::{Machine, engine::Execution},
};
use mesh_wire::kinds::{ContainerSpec, Mount, NetworkSpec, Ready, Replace};

use crate::podman::{Podman, memory, planned, remove, round};

const SLEEP: &str = "trap 'touch /shared/ended; exit 0' TERM; touch /run/up; while :; do sleep 0.05; done";

fn command(words: &[&str], within_s: u32) -> Ready {
    Ready::by_command(words.iter().map(|&word| word.to_owned()).collect(), within_s)
}

/// A container with a folder of the machine's that all of them write to.
fn web(podman: &Podman, colour: &str) -> ContainerSpec {
    let shared = podman.path().join("shared");
    std::fs::create_dir_all(&shared).unwrap();
    let mut spec = podman.spec("web", SLEEP);
    spec.stop_grace_s = 5;
    spec.environment.insert("COLOUR".to_owned(), colour.to_owned());
    spec.mounts.push(Mount {
        source: shared.display().to_string(),
        target: "/shared".to_owned(),
        read_only: false,
        shared: true,
    });
    spec.ready = Some(command(&["test", "-e", "/run/up"], 60));
    spec
}

/// Every container, as a person sees it.
fn all(podman: &Podman) -> String {
    let names = podman.podman(&["ps", "-a", "--sort", "names", "--format", "{{.Names}}"]);
    let state = |name| podman.podman(&["inspect", "--format", "{{.Name}} {{.State.Status}}", name]);
    names.lines().map(state).collect::<Vec<_>>().join("\n")
}

async fn colour(machine: &Machine) -> String {
    let look = Execution::new("web", "look", &["printenv", "COLOUR"]);
    machine.engine.execute(&look).await.unwrap().succeeded().unwrap()
}

/// Rounds until nothing is left to do.
async fn converge(machine: &Machine, spec: &ContainerSpec) {
    for _ in 0..4 {
        round::<Container>(machine, spec, &memory(None)).await.unwrap();
        if planned(machine, spec, &memory::<Container>(Some(spec))).await.unwrap().is_empty() {
            return;
        }
    }
    panic!("it does not converge: {:?}", planned::<Container>(machine, spec, &memory(None)).await);
}

#[tokio::test]
async fn one_takes_the_place_of_another_and_is_found_by_its_name() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let lan = NetworkSpec { name: "lan".to_owned(), subnet: None, internal: false };
    round::<Network>(&machine, &lan, &memory(None)).await.unwrap();
    let on_lan = |colour| ContainerSpec { networks: vec!["lan".to_owned()], ..web(&podman, colour) };
    converge(&machine, &on_lan("red")).await;
    let steps = round::<Container>(&machine, &on_lan("green"), &memory(None)).await.unwrap();
    assert_eq!(
        steps,
        [
            &format!("make the container web from {}", podman.image()),
            "stop the container web to replace it, because its declaration changed",
            "put the new container web in its place; the old one is kept until that is ready",
            "start the container web",
            "wait until the container web is ready (test, 60 s)",
            "remove the container web.mesh-old"
        ]
    );
    assert_eq!((all(&podman).as_str(), colour(&machine).await.as_str()), ("web running", "green\n"));
    assert_eq!(podman.podman(&["inspect", "--format", "{{.Config.Hostname}}", "web"]), "web");
    let aliases = "{{range .NetworkSettings.Networks}}{{.Aliases}}{{end}}";
    let aliases = podman.podman(&["inspect", "--format", aliases, "web"]);
    assert!(aliases.trim_matches(['[', ']']).split(' ').any(|alias| alias == "web"), "{aliases}");
    remove::<Container>(&machine, &on_lan("green")).await;
    assert_eq!(all(&podman), "");
}

#[tokio::test]
async fn one_that_is_started_first_is_ready_before_the_other_is_stopped() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let beside = |colour| ContainerSpec { replace: Replace::StartFirst, ..web(&podman, colour) };
    converge(&machine, &beside("red")).await;
    let mut green = beside("green");
    // Ready only while the other one has not ended.
    green.ready = Some(command(&["test", "!", "-e", "/shared/ended"], 60));
    round::<Container>(&machine, &green, &memory(None)).await.unwrap();
    assert!(podman.path().join("shared/ended").exists(), "the other one ended afterwards");
    assert_eq!((all(&podman).as_str(), colour(&machine).await.as_str()), ("web running", "green\n"));
    assert_eq!(planned(&machine, &green, &memory::<Container>(Some(&green))).await, Ok(Vec::new()));
}

#[tokio::test]
async fn one_that_does_not_become_ready_gives_the_place_back() {
    for replace in [Replace::StopFirst, Replace::StartFirst] {
        let podman = Podman::start().await;
        let machine = podman.machine();
        let red = ContainerSpec { replace, ..web(&podman, "red") };
        converge(&machine, &red).await;
        let mut green = ContainerSpec { replace, ..web(&podman, "green") };
        green.command = ["sh", "-c", "echo no such table; exec sleep 600"].map(str::to_owned).to_vec();
        green.ready = Some(command(&["test", "-e", "/run/up"], 2));
        let failure = round::<Container>(&machine, &green, &memory(None)).await.unwrap_err().to_string();
        assert!(
            failure.contains(
                "was not ready within 2 s; asked last: it ended with 1; its last lines: no such table; "
            ) && failure.ends_with("the container before it was put back and started"),
            "{failure}"
        );
        assert_eq!(
            (all(&podman).as_str(), colour(&machine).await.as_str()),
            ("web running\nweb.mesh-failed exited", "red\n")
        );
        // A host that remembers nothing knows it from the engine.
        let failure =
            planned::<Container>(&podman.machine(), &green, &memory(None)).await.unwrap_err().to_string();
        assert!(
            failure.contains("no such table") && failure.contains("web.mesh-failed is removed"),
            "{failure}"
        );
        converge(&machine, &web(&podman, "blue")).await;
        assert_eq!((all(&podman).as_str(), colour(&machine).await.as_str()), ("web running", "blue\n"));
    }
}

#[tokio::test]
async fn a_replacement_that_was_cut_off_is_gone_on_with() {
    let podman = Podman::start().await;
    let mut red = web(&podman, "red");
    for (colour, replace, taken) in [
        ("green", Replace::StopFirst, 2),
        ("blue", Replace::StopFirst, 4),
        ("white", Replace::StartFirst, 2),
        ("black", Replace::StartFirst, 4),
    ] {
        let machine = podman.machine();
        converge(&machine, &red).await;
        let next = ContainerSpec { replace, ..web(&podman, colour) };
        machine.engine.new_round();
        let observed = Container::observe(&machine, &next).await.unwrap();
        let steps = Container::plan(&next, &observed, &memory(None)).unwrap();
        for step in &steps[..taken] {
            step.apply(&machine).await.unwrap();
        }
        if taken == 4 && replace == Replace::StartFirst {
            // Between the two names.
            podman.podman(&["rename", "web", "web.mesh-old"]);
        }
        converge(&podman.machine(), &next).await;
        let ended = format!("{colour}\n");
        assert_eq!((all(&podman).as_str(), self::colour(&machine).await), ("web running", ended));
        red = next;
    }
}
