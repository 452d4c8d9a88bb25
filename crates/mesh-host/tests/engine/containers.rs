//! Containers, networks and volumes.

use std::time::Duration;

use mesh_host::{
    kinds::{container::Container, network::Network, volume::Volume},
    machine::{
        Machine,
        engine::{Engine as _, Execution, State},
    },
};
use mesh_testkit::wait_for;
use mesh_wire::kinds::{ContainerSpec, Lifecycle, Mount, NetworkSpec, Ready, VolumeSpec};
use tokio::time::timeout;

use crate::podman::{Podman, memory, planned, remove, round};

const SLEEP: &str = "trap 'exit 0' TERM; echo up; touch /run/up; while :; do sleep 0.05; done";

async fn state(machine: &Machine, name: &str) -> Option<State> {
    machine.engine.new_round();
    machine.engine.look().await.unwrap().containers.get(name).map(|found| found.state.clone())
}

fn id(podman: &Podman, name: &str) -> String {
    podman.podman(&["inspect", "--type", "container", "--format", "{{.Id}} {{.State.StartedAt}}", name])
}

fn ready(spec: ContainerSpec) -> ContainerSpec {
    let command = ["test", "-e", "/run/up"].map(str::to_owned).to_vec();
    ContainerSpec { ready: Some(Ready::by_command(command, 30)), ..spec }
}

#[tokio::test]
async fn a_container_is_made_repaired_replaced_and_removed() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let spec = ready(podman.spec("web", SLEEP));
    let image = podman.image();
    let first = round::<Container>(&machine, &spec, &memory(None)).await.unwrap();
    assert_eq!(
        first,
        [
            format!("get the image {image}"),
            format!("make the container web from {image}"),
            "start the container web".to_owned(),
            "wait until the container web is ready (test, 30 s)".to_owned(),
        ]
    );
    let applied = memory::<Container>(Some(&spec));
    assert_eq!(planned(&machine, &spec, &applied).await, Ok(Vec::new()));

    // Another host process, which remembers nothing of the engine, leaves it alone.
    let began = id(&podman, "web");
    assert_eq!(planned(&podman.machine(), &spec, &applied).await, Ok(Vec::new()));

    // Ended by somebody: started again, not made again.
    podman.podman(&["stop", "-t", "1", "web"]);
    let repaired = round(&machine, &spec, &applied).await.unwrap();
    assert_eq!(repaired[0], "start the container web");
    let again = id(&podman, "web");
    assert_eq!(again.split(' ').next(), began.split(' ').next());
    assert_ne!(again, began);

    // Removed by somebody: made again.
    podman.podman(&["rm", "-f", "-t", "0", "web"]);
    let repaired = round(&machine, &spec, &applied).await.unwrap();
    assert_eq!(repaired[0], format!("make the container web from {image}"));

    // What changes how it is waited for does not replace it; what it is made from does.
    let mut changed = spec.clone();
    changed.stop_grace_s = 2;
    let waits = planned::<Container>(&machine, &changed, &memory(None)).await.unwrap();
    assert_eq!(waits, ["wait until the container web is ready (test, 30 s)"]);
    changed.environment.insert("COLOUR".to_owned(), "red".to_owned());
    let replaced = round::<Container>(&machine, &changed, &memory(None)).await.unwrap();
    assert_eq!(
        replaced[1..3],
        [
            "stop the container web to replace it, because its declaration changed",
            "put the new container web in its place; the old one is kept until that is ready"
        ]
    );
    let environment = Execution::new("web", "look", &["printenv", "COLOUR"]);
    let said = machine.engine.execute(&environment).await.unwrap().succeeded().unwrap();
    assert_eq!(said, "red\n");

    assert_eq!(
        remove::<Container>(&machine, &changed).await,
        ["stop the container web", "remove the container web"]
    );
    assert_eq!(state(&machine, "web").await, None);
    assert!(remove::<Container>(&machine, &changed).await.is_empty());
}

#[tokio::test]
async fn a_changed_file_replaces_the_container_that_reads_it() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let spec = podman.spec("web", SLEEP);
    round::<Container>(&machine, &spec, &memory(None)).await.unwrap();
    let mut applied = memory::<Container>(Some(&spec));
    applied.changed.push("file:web.conf".parse().unwrap());
    let steps = round(&machine, &spec, &applied).await.unwrap();
    assert_eq!(steps[1], "stop the container web to replace it, because file:web.conf changed");
    assert_eq!(state(&machine, "web").await, Some(State::Running));
}

#[tokio::test]
async fn a_container_that_is_not_the_meshs_is_never_touched() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    machine.engine.fetch_image(&podman.image()).await.unwrap();
    let id = podman.podman(&["images", "-q"]);
    podman.podman(&["create", "--name", "web", &id, "true"]);
    podman.podman(&["volume", "create", "data"]);
    podman.podman(&["network", "create", "lan"]);
    let spec = podman.spec("web", SLEEP);
    let failure = planned::<Container>(&machine, &spec, &memory(None)).await.unwrap_err().to_string();
    assert!(failure.contains("a container web that the mesh did not make"), "{failure}");
    assert!(remove::<Container>(&machine, &spec).await.is_empty());
    let volume = VolumeSpec { name: "data".to_owned(), released: false };
    let failure = planned::<Volume>(&machine, &volume, &memory(None)).await.unwrap_err().to_string();
    assert!(failure.contains("a volume data that the mesh did not make"), "{failure}");
    let network = NetworkSpec { name: "lan".to_owned(), subnet: None, internal: false };
    let failure = planned::<Network>(&machine, &network, &memory(None)).await.unwrap_err().to_string();
    assert!(failure.contains("a network lan that the mesh did not make"), "{failure}");
    assert!(remove::<Network>(&machine, &network).await.is_empty());
    podman.podman(&["inspect", "web"]);
}

#[tokio::test]
async fn a_container_runs_to_its_end_once() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let count = podman.path().join("count");
    std::fs::create_dir(&count).unwrap();
    let mut spec = podman.spec("migrate", "echo x >> /data/runs; echo a; echo broken here >&2; exit 3");
    spec.lifecycle = Lifecycle::Once;
    spec.mounts.push(Mount {
        source: count.display().to_string(),
        target: "/data".to_owned(),
        read_only: false,
        shared: false,
    });
    let runs = || std::fs::read_to_string(count.join("runs")).unwrap().lines().count();

    let failure = round::<Container>(&machine, &spec, &memory(None)).await.unwrap_err().to_string();
    assert!(failure.contains("ended with 3; its last lines:"), "{failure}");
    assert!(failure.contains("broken here"), "{failure}");
    assert_eq!(runs(), 1);
    // It is tried again, from the beginning, but not in a circle: the waits grow beyond what a round takes.
    let mut tries = 1;
    let held = loop {
        let failure = round::<Container>(&machine, &spec, &memory(None)).await.unwrap_err().to_string();
        if failure.contains("started again later") {
            break failure;
        }
        tries += 1;
        assert_eq!(runs(), tries);
        assert!(tries < 10, "it is never left alone");
    };
    assert!(tries >= 2 && held.contains("broken here"), "{held}");
    assert_eq!(runs(), tries);

    let spec =
        ContainerSpec { command: ["sh", "-c", "echo x >> /data/runs"].map(str::to_owned).to_vec(), ..spec };
    let steps = round::<Container>(&machine, &spec, &memory(None)).await.unwrap();
    assert_eq!(steps.last().unwrap(), "wait until the container migrate has ended (600 s)");
    assert_eq!(runs(), tries + 1);
    // Killed before the ledger knew: not run again.
    assert_eq!(planned::<Container>(&machine, &spec, &memory(None)).await, Ok(Vec::new()));
    // Known to the ledger: not run again, even when somebody cleaned up.
    podman.podman(&["rm", "-f", "migrate"]);
    assert_eq!(planned(&machine, &spec, &memory::<Container>(Some(&spec))).await, Ok(Vec::new()));
    assert_eq!(runs(), tries + 1);
}

#[tokio::test]
async fn what_never_becomes_ready_fails_with_the_reason() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let mut spec = ready(podman.spec("web", "echo starting; exec sleep 60"));
    spec.ready.as_mut().unwrap().within_s = 1;
    let failure = round::<Container>(&machine, &spec, &memory(None)).await.unwrap_err().to_string();
    assert!(failure.contains("was not ready within 1 s"), "{failure}");
    assert!(
        failure.contains("asked last: it ended with 1") && failure.ends_with("its last lines: starting"),
        "{failure}"
    );
    // It had its time: asked once more, and told at once.
    spec.ready.as_mut().unwrap().within_s = 1;
    let again = timeout(Duration::from_secs(20), round::<Container>(&machine, &spec, &memory(None))).await;
    assert!(again.unwrap().unwrap_err().to_string().contains("was not ready within 1 s"));
    let spec = ready(podman.spec("web", "echo no such table; exit 5"));
    let failure = round::<Container>(&machine, &spec, &memory(None)).await.unwrap_err().to_string();
    assert!(failure.contains("ended with 5") && failure.contains("no such table"), "{failure}");
}

#[tokio::test]
async fn a_missing_volume_or_network_is_named() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let mut spec = podman.spec("web", SLEEP);
    spec.networks.push("lan".to_owned());
    let failure = round::<Container>(&machine, &spec, &memory(None)).await.unwrap_err().to_string();
    assert!(failure.contains("declare network:lan"), "{failure}");
    spec.mounts.push(Mount {
        source: "data".to_owned(),
        target: "/data".to_owned(),
        read_only: false,
        shared: false,
    });
    let failure = round::<Container>(&machine, &spec, &memory(None)).await.unwrap_err().to_string();
    assert!(failure.contains("declare volume:data"), "{failure}");
    assert_eq!(podman.podman(&["volume", "ls", "-q"]), "", "the engine made no volume by itself");
}

#[tokio::test]
async fn networks_connect_and_volumes_keep() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let lan =
        NetworkSpec { name: "lan".to_owned(), subnet: Some("10.213.77.0/24".to_owned()), internal: false };
    let other = NetworkSpec { name: "other".to_owned(), subnet: None, internal: false };
    let data = VolumeSpec { name: "data".to_owned(), released: false };
    for network in [&lan, &other] {
        round::<Network>(&machine, network, &memory(None)).await.unwrap();
        assert_eq!(planned::<Network>(&machine, network, &memory(None)).await, Ok(Vec::new()));
    }
    round::<Volume>(&machine, &data, &memory(None)).await.unwrap();
    assert_eq!(planned::<Volume>(&machine, &data, &memory(None)).await, Ok(Vec::new()));

    let mut spec = podman.spec("web", &format!("cat /etc/hosts > /data/hosts; {SLEEP}"));
    spec.networks = vec!["lan".to_owned(), "other".to_owned()];
    spec.mounts.push(Mount {
        source: "data".to_owned(),
        target: "/data".to_owned(),
        read_only: false,
        shared: false,
    });
    let spec = ready(spec);
    round::<Container>(&machine, &spec, &memory(None)).await.unwrap();
    assert_eq!(planned(&machine, &spec, &memory::<Container>(Some(&spec))).await, Ok(Vec::new()));
    let hosts = Execution::new("web", "look", &["cat", "/data/hosts"]);
    let hosts = machine.engine.execute(&hosts).await.unwrap().succeeded().unwrap();
    assert!(hosts.contains("10.213.77."), "{hosts}");

    // A changed network with a container in it stays as it is, and names who is in it.
    let changed = NetworkSpec { internal: true, ..lan.clone() };
    let failure = planned::<Network>(&machine, &changed, &memory(None)).await.unwrap_err().to_string();
    assert!(
        failure.starts_with("it is not internal, and it cannot be changed while containers are in it: web;"),
        "{failure}"
    );
    // With a container in it a network stays, and says why.
    machine.engine.new_round();
    assert!(machine.engine.remove_network("lan").await.unwrap_err().to_string().contains("being used"));
    // Taken out of one of its networks, the container is not as declared any more.
    podman.podman(&["network", "disconnect", "other", "web"]);
    let steps = round(&machine, &spec, &memory::<Container>(Some(&spec))).await.unwrap();
    assert!(steps[1].starts_with("stop the container web"), "{steps:?}");

    remove::<Container>(&machine, &spec).await;
    let kept = "keep the volume data and its data: it was not released";
    assert_eq!(remove::<Volume>(&machine, &data).await, [kept]);
    let steps = round::<Network>(&machine, &changed, &memory(None)).await.unwrap();
    assert_eq!(steps, ["remove the network lan", "make the network lan (10.213.77.0/24, internal)"]);
    assert_eq!(planned::<Network>(&machine, &changed, &memory(None)).await, Ok(Vec::new()));
    assert_eq!(podman.podman(&["network", "inspect", "--format", "{{.Internal}}", "lan"]), "true");
    assert_eq!(remove::<Network>(&machine, &lan).await, ["remove the network lan"]);
    assert!(remove::<Network>(&machine, &lan).await.is_empty());
    assert_eq!(podman.podman(&["volume", "ls", "-q"]), "data", "data stays");
    assert_eq!(
        planned::<Volume>(&machine, &data, &memory(None)).await,
        Ok(Vec::new()),
        "and is taken up again"
    );
    let released = VolumeSpec { released: true, ..data };
    assert_eq!(planned::<Volume>(&machine, &released, &memory(None)).await, Ok(Vec::new()));
    assert_eq!(podman.podman(&["volume", "ls", "-q"]), "data", "released is not removed");
    let gone = "remove the volume data and its data, which was released";
    assert_eq!(remove::<Volume>(&machine, &released).await, [gone]);
    assert_eq!(podman.podman(&["volume", "ls", "-q"]), "");
    assert!(remove::<Volume>(&machine, &released).await.is_empty());
}

#[tokio::test]
async fn a_port_that_is_taken_fails_in_words() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut spec = podman.spec("web", SLEEP);
    spec.ports.push(mesh_wire::kinds::Port {
        host: taken.local_addr().unwrap().port(),
        container: 80,
        protocol: mesh_wire::kinds::Protocol::Tcp,
        address: Some(std::net::Ipv4Addr::LOCALHOST.into()),
    });
    let failure = round::<Container>(&machine, &spec, &memory(None)).await.unwrap_err().to_string();
    assert!(failure.contains("address already in use"), "{failure}");
    drop(taken);
    let steps = round::<Container>(&machine, &spec, &memory(None)).await.unwrap();
    assert_eq!(steps, ["start the container web"]);
}

#[tokio::test]
async fn what_is_executed_reads_its_input_and_ends_with_its_code() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    round::<Container>(&machine, &podman.spec("web", SLEEP), &memory(None)).await.unwrap();
    let engine = &machine.engine;
    let cat = Execution::new("web", "copy", &["cat"]).reading(b"a secret\nand more");
    assert_eq!(engine.execute(&cat).await.unwrap().succeeded().unwrap(), "a secret\nand more");
    assert!(!format!("{cat:?} {cat}").contains("secret"));
    let fails = Execution::new("web", "fail", &["sh", "-c", "echo out; echo why >&2; exit 4"]);
    let failure = engine.execute(&fails).await.unwrap().succeeded().unwrap_err().to_string();
    assert_eq!(failure, "it ended with 4: why");
    let slow = Execution { within_s: 1, ..Execution::new("web", "wait", &["sleep", "30"]) };
    let failure = engine.execute(&slow).await.unwrap_err().to_string();
    assert_eq!(failure, "it did not end within 1 s");
}

#[tokio::test]
async fn a_container_that_ends_wakes_a_round_and_nothing_else_does() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let engine = &machine.engine;
    round::<Container>(&machine, &podman.spec("web", SLEEP), &memory(None)).await.unwrap();
    // Opens the events; nothing happens, so nothing wakes.
    timeout(Duration::from_millis(500), engine.changed()).await.unwrap_err();
    engine.execute(&Execution::new("web", "look", &["true"])).await.unwrap();
    timeout(Duration::from_millis(500), engine.changed()).await.unwrap_err();

    // While nothing is told, the lists are not asked for again.
    engine.look().await.unwrap();
    let before = engine.look().await.unwrap();
    engine.new_round();
    assert!(std::rc::Rc::ptr_eq(&before, &engine.look().await.unwrap()));

    podman.podman(&["kill", "web"]);
    timeout(Duration::from_secs(10), engine.changed()).await.expect("the end of a container wakes");
    wait_for("the end to be seen", Duration::from_secs(5), async || {
        matches!(state(&machine, "web").await, Some(State::Exited))
    })
    .await;
    podman.podman(&["rm", "web"]);
    timeout(Duration::from_secs(10), engine.changed()).await.expect("a removed container wakes");
}

#[tokio::test]
async fn an_engine_that_goes_away_is_found_again() {
    let mut podman = Podman::start().await;
    let machine = podman.machine();
    let spec = podman.spec("web", SLEEP);
    round::<Container>(&machine, &spec, &memory(None)).await.unwrap();
    let began = id(&podman, "web");
    timeout(Duration::from_millis(300), machine.engine.changed()).await.unwrap_err();

    podman.stop_service();
    timeout(Duration::from_secs(5), machine.engine.changed()).await.expect("its end wakes");
    let applied = memory::<Container>(Some(&spec));
    let failure = planned(&machine, &spec, &applied).await.unwrap_err().to_string();
    assert!(failure.contains("podman.sock"), "{failure}");

    podman.start_service();
    wait_for("the engine to answer", Duration::from_secs(20), async || {
        planned(&machine, &spec, &applied).await.map(|steps| assert_eq!(steps, Vec::<String>::new()))
    })
    .await;
    assert_eq!(id(&podman, "web"), began, "nothing restarted");
}

#[tokio::test]
async fn a_machine_without_an_engine_says_so() {
    let podman = Podman::start().await;
    let images = mesh_host::machine::engine::images::ImageStore::new(podman.path(), podman.path());
    let nowhere = vec![podman.path().join("no.sock")];
    let engine = mesh_host::machine::engine::socket::EngineSocket::new(nowhere, None, images);
    assert_eq!(engine.version().await, None);
    let failure = engine.look().await.unwrap_err().to_string();
    assert!(failure.contains("has no container engine") && failure.contains("install podman"), "{failure}");
}
