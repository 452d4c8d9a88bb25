//! How a container is known to be ready, and to be well, on a real Podman: the host reaches it by its own address.

use std::time::Duration;

use mesh_host::{
    kinds::container::Container,
    machine::{Machine, engine::Execution},
};
use mesh_wire::kinds::{ContainerSpec, Health, HttpProbe, Ready};
use tokio::time::timeout;

use crate::podman::{Podman, memory, planned, round};

/// Answers 200 while there is a file, and 503 otherwise. Perl is on every Debian.
const SERVER: &str = r#"
    $| = 1; $SIG{TERM} = sub { exit 0 };
    my $server = IO::Socket::INET->new(LocalPort => 8080, Listen => 5, ReuseAddr => 1) or die $!;
    print "listens\n";
    while (1) {
        my $client = $server->accept or next;
        my $asked = <$client>;
        my $status = -e "/run/well" && $asked =~ m{^GET /ready\?all HTTP/1.1} ? "200 OK" : "503 Busy";
        print $client "HTTP/1.1 $status\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        close $client;
    }
"#;

fn server(podman: &Podman, before: &str) -> ContainerSpec {
    let script = format!("{before}\nexec perl -MIO::Socket::INET -e '{SERVER}'");
    ContainerSpec { ready: Some(over_http(30)), ..podman.spec("web", &script) }
}

fn over_http(within_s: u32) -> Ready {
    let http = HttpProbe { port: 8080, path: "/ready?all".to_owned() };
    Ready { command: Vec::new(), http: Some(http), tcp: None, within_s, timeout_s: Some(2) }
}

async fn run(machine: &Machine, words: &[&str]) {
    machine.engine.execute(&Execution::new("web", "change it", words)).await.unwrap().succeeded().unwrap();
}

#[tokio::test]
async fn a_container_is_ready_when_it_answers_well_over_http() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let mut spec = server(&podman, "");
    spec.ready = Some(over_http(3));
    let failure = round::<Container>(&machine, &spec, &memory(None)).await.unwrap_err().to_string();
    assert!(
        failure.contains(
            "asked last: GET :8080/ready?all answers 503 Service Unavailable; its last lines: listens"
        ),
        "{failure}"
    );
    run(&machine, &["touch", "/run/well"]).await;
    let steps = round::<Container>(&machine, &spec, &memory(None)).await.unwrap();
    assert_eq!(steps, ["wait until the container web is ready (GET :8080/ready?all, 3 s)"]);
    // What it writes can be its own.
    spec.private_log = true;
    run(&machine, &["rm", "/run/well"]).await;
    let failure = round::<Container>(&machine, &spec, &memory(None)).await.unwrap_err().to_string();
    assert!(failure.contains("answers 503") && !failure.contains("listens"), "{failure}");
}

#[tokio::test]
async fn a_container_is_ready_when_its_port_takes_a_connection() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let mut spec = server(&podman, "");
    spec.ready = Some(Ready { http: None, tcp: Some(8081), ..over_http(1) });
    let failure = round::<Container>(&machine, &spec, &memory(None)).await.unwrap_err().to_string();
    assert!(failure.contains("asked last: connect to its port 8081: "), "{failure}");
    spec.ready = Some(Ready { http: None, tcp: Some(8080), ..over_http(30) });
    round::<Container>(&machine, &spec, &memory(None)).await.unwrap();
}

#[tokio::test]
async fn a_container_whose_answers_stay_bad_is_restarted() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let spec = server(&podman, "touch /run/well");
    let spec = ContainerSpec { health: Some(Health { interval_s: 1, failures: 2 }), ..spec };
    round::<Container>(&machine, &spec, &memory(None)).await.unwrap();
    let applied = memory::<Container>(Some(&spec));
    assert_eq!(planned(&machine, &spec, &applied).await, Ok(Vec::new()));
    // What the start brought about is heard first.
    while timeout(Duration::from_secs(3), machine.engine.changed()).await.is_ok() {}
    assert_eq!(planned(&machine, &spec, &applied).await, Ok(Vec::new()));

    run(&machine, &["rm", "/run/well"]).await;
    timeout(Duration::from_mins(1), machine.engine.changed()).await.expect("bad answers wake");
    let steps = round(&machine, &spec, &applied).await.unwrap();
    assert_eq!(
        steps,
        [
            "stop the container web to restart it, because it is not well: 2 bad answers in a row, the last: GET \
             :8080/ready?all answers 503 Service Unavailable",
            "start the container web",
            "wait until the container web is ready (GET :8080/ready?all, 30 s)"
        ]
    );
    assert_eq!(planned(&machine, &spec, &applied).await, Ok(Vec::new()));
}
