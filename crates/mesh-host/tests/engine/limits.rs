//! What a container may use and do, as the engine has it.

use std::collections::BTreeMap;

use mesh_host::{
    kinds::container::Container,
    machine::engine::{Draft, Execution},
};
use mesh_wire::kinds::{ContainerSpec, Tmpfs};

use crate::podman::{Podman, memory, round};

fn guarded(spec: ContainerSpec) -> ContainerSpec {
    ContainerSpec {
        read_only_root: true,
        tmpfs: vec![Tmpfs { target: "/scratch".to_owned(), size_bytes: Some(1 << 20) }],
        cap_add: vec!["SYS_NICE".to_owned()],
        cap_drop: vec!["ALL".to_owned()],
        extra_hosts: BTreeMap::from([("printer".to_owned(), "192.0.2.7".parse().unwrap())]),
        labels: BTreeMap::from([("org.example.team".to_owned(), "web".to_owned())]),
        working_directory: Some("/usr".to_owned()),
        stop_signal: Some("SIGINT".to_owned()),
        shm_bytes: Some(2 << 20),
        ..spec
    }
}

#[tokio::test]
async fn limits_reach_the_engine() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    machine.engine.fetch_image(&podman.image()).await.unwrap();
    let mut spec = podman.spec("web", "true");
    spec.memory_bytes = Some(64 << 20);
    spec.cpu_millicores = Some(1500);
    spec.pids = Some(100);
    // Made and not started: whether the kernel can keep them is not the question here.
    machine.engine.create_container(&Draft::of(&spec)).await.unwrap();
    let said = podman.podman(&[
        "inspect",
        "--format",
        "{{.HostConfig.Memory}} {{.HostConfig.CpuQuota}}/{{.HostConfig.CpuPeriod}} {{.HostConfig.PidsLimit}}",
        "web",
    ]);
    assert_eq!(said, "67108864 150000/100000 100");
}

#[tokio::test]
async fn a_guarded_container_can_do_what_is_declared_and_no_more() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let script = "trap 'echo interrupted; exit 0' INT; touch /scratch/up; while :; do sleep 0.05; done";
    let spec = guarded(podman.spec("web", script));
    round::<Container>(&machine, &spec, &memory(None)).await.unwrap();
    let engine = &machine.engine;
    let run = async |words: &[&str]| engine.execute(&Execution::new("web", "look", words)).await.unwrap();
    let said = async |words: &[&str]| run(words).await.succeeded().unwrap();

    assert_ne!(run(&["touch", "/etc/x"]).await.code, 0, "its own files are read-only");
    run(&["touch", "/scratch/x"]).await.succeeded().unwrap();
    let sizes = said(&["df", "--output=size", "-B1", "/scratch", "/dev/shm"]).await;
    assert!(sizes.contains(" 1048576\n") && sizes.contains(" 2097152\n"), "{sizes}");
    assert!(said(&["cat", "/etc/hosts"]).await.contains("192.0.2.7\tprinter"));
    assert_eq!(said(&["pwd"]).await, "/usr\n");
    // CAP_SYS_NICE is bit 23 (capabilities(7)).
    assert!(said(&["cat", "/proc/1/status"]).await.contains("CapEff:\t0000000000800000"));
    assert_eq!(
        podman.podman(&["inspect", "--format", r#"{{index .Config.Labels "org.example.team"}}"#, "web"]),
        "web"
    );

    engine.stop_container("web", std::time::Duration::from_secs(20)).await.unwrap();
    assert!(podman.log("web").contains("interrupted"), "ended by its own signal");
}

#[tokio::test]
async fn an_entrypoint_replaces_that_of_the_image() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let mut spec = podman.spec("web", "");
    spec.lifecycle = mesh_wire::kinds::Lifecycle::Once;
    spec.entrypoint = ["echo", "from"].map(str::to_owned).to_vec();
    spec.command = vec!["here".to_owned()];
    round::<Container>(&machine, &spec, &memory(None)).await.unwrap();
    assert_eq!(podman.log("web"), "from here\n");
}
