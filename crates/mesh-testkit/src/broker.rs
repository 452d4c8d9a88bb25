//! A real RabbitMQ for one test: TLS on loopback, its own node name, cookie, data and ports, gone with the test.
//!
//! Does: raise the machine's RabbitMQ with the virtual host and the administrator that a node's broker has, crash and
//! restart it, lose everything it held. Never: touches the machine's own RabbitMQ service, its data or its port mapper.
//! Never leaves a server behind: see `broker.sh`.
//! Called by: tests.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::authority::Authority;
use crate::wait_for;

const SCRIPT: &str = include_str!("broker.sh");
/// Seven seconds on a quiet machine; tests run on busy ones.
const START_DEADLINE: Duration = Duration::from_mins(4);
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// A running RabbitMQ that belongs to one test.
pub struct Broker {
    directory: PathBuf,
    authority: Authority,
    amqps_port: u16,
    management_port: u16,
    script: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Broker {
    /// The virtual host of the link.
    pub const VHOST: &'static str = "link";
    /// The administrator.
    pub const ADMINISTRATOR: &'static str = "control";
    /// Its password.
    pub const PASSWORD: &'static str = "password-of-a-test";
    /// The name in the certificate.
    pub const SERVER_NAME: &'static str = "broker.mesh.internal";

    /// Raises a broker and waits until it serves. Panics with what to install when there is no RabbitMQ here.
    pub async fn start() -> Self {
        assert!(
            Path::new(SERVER).exists(),
            "there is no RabbitMQ on this machine: install the Debian package rabbitmq-server (its service need not run)"
        );
        let directory = tempfile::Builder::new()
            .prefix("mesh-broker-")
            .tempdir()
            .expect("make a directory for the broker")
            .keep();
        let [amqps_port, management_port, distribution_port, mapper_port] = free_ports();
        let authority = Authority::new();
        write_configuration(&directory, &authority, amqps_port, management_port);
        let file = |name: &str| directory.join(name);
        let mut script = Command::new("sh")
            .args(["-c", SCRIPT, "broker"])
            .arg(&directory)
            .arg(mapper_port.to_string())
            .arg(SERVER)
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", &directory)
            .env("RABBITMQ_NODENAME", format!("mesh-{amqps_port}@localhost"))
            .env("RABBITMQ_CONFIG_FILE", file("rabbitmq.conf"))
            .env("RABBITMQ_CONF_ENV_FILE", file("none.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", file("enabled_plugins"))
            .env("RABBITMQ_MNESIA_BASE", file("data"))
            .env("RABBITMQ_LOG_BASE", file("log"))
            .env("RABBITMQ_LOGS", "-")
            .env("RABBITMQ_PID_FILE", file("pid"))
            .env("RABBITMQ_DIST_PORT", distribution_port.to_string())
            .env("ERL_EPMD_PORT", mapper_port.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                format!("-kernel inet_dist_use_interface {{127,0,0,1}} -setcookie mesh{amqps_port} +S 1:1"),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A signal to the test's process group must not reach the one that cleans up after it.
            .process_group(0)
            .spawn()
            .expect("start the broker's script");
        let orders = script.stdin.take();
        let answers = BufReader::new(script.stdout.take().expect("the script's answers"));
        let mut broker = Self { directory, authority, amqps_port, management_port, script, orders, answers };
        broker.order("start");
        broker.serving().await;
        broker
    }

    /// The loopback port of AMQP over TLS. It is kept over [`Self::restart`].
    pub fn amqps_port(&self) -> u16 {
        self.amqps_port
    }

    /// The loopback port of the management interface, HTTPS.
    pub fn management_port(&self) -> u16 {
        self.management_port
    }

    /// Who issued the broker's certificate.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Ends the broker as a power cut does.
    pub fn crash(&mut self) {
        self.order("stop");
    }

    /// Starts it again after [`Self::crash`], on the same ports with the same data, and waits until it serves.
    pub async fn restart(&mut self) {
        self.order("start");
        self.serving().await;
    }

    /// Starts it again after [`Self::crash`] with nothing of what it held, and waits until it serves.
    pub async fn restart_empty(&mut self) {
        fs::remove_dir_all(self.directory.join("data")).expect("remove the broker's data");
        self.restart().await;
    }

    /// The end of what the broker said.
    pub fn log(&self) -> String {
        let log = fs::read_to_string(self.directory.join("server.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    async fn serving(&mut self) {
        let ports = [self.amqps_port, self.management_port];
        let open = |port| TcpStream::connect(("127.0.0.1", port)).is_ok();
        wait_for("the broker to serve", START_DEADLINE, async || {
            if ports.iter().all(|port| open(*port)) { Ok(()) } else { Err(self.log()) }
        })
        .await;
    }

    fn order(&mut self, word: &str) {
        let orders = self.orders.as_mut().expect("the script's orders");
        writeln!(orders, "{word}").expect("give the script an order");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("read the script's answer");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // The closed pipe is the script's signal to end everything.
        drop(self.orders.take());
        drop(self.script.wait());
    }
}

fn free_ports() -> [u16; 4] {
    // Held together, so that they differ.
    let listeners = [(); 4].map(|()| TcpListener::bind(("127.0.0.1", 0)).expect("find a free port"));
    listeners.map(|listener| listener.local_addr().expect("read a port").port())
}

fn write_configuration(directory: &Path, authority: &Authority, amqps_port: u16, management_port: u16) {
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).expect("write the broker's configuration");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("protect it");
        path.display().to_string()
    };
    let certificate = authority.issue(&[Broker::SERVER_NAME, "localhost"]);
    let chain = write("chain.pem", &certificate.chain_pem);
    let key = write("key.pem", &certificate.key_pem);
    let (vhost, user, password) = (Broker::VHOST, Broker::ADMINISTRATOR, Broker::PASSWORD);
    let definitions = write(
        "definitions.json",
        &format!(
            r#"{{
                "users": [{{"name": "{user}", "password": "{password}", "tags": "administrator"}}],
                "vhosts": [{{"name": "{vhost}"}}],
                "permissions": [{{"user": "{user}", "vhost": "{vhost}", "configure": ".*", "write": ".*", "read": ".*"}}]
            }}"#
        ),
    );
    write(
        "rabbitmq.conf",
        &format!(
            "listeners.tcp = none\n\
             listeners.ssl.1 = 127.0.0.1:{amqps_port}\n\
             ssl_options.certfile = {chain}\n\
             ssl_options.keyfile = {key}\n\
             management.ssl.ip = 127.0.0.1\n\
             management.ssl.port = {management_port}\n\
             management.ssl.certfile = {chain}\n\
             management.ssl.keyfile = {key}\n\
             load_definitions = {definitions}\n"
        ),
    );
    write("enabled_plugins", "[rabbitmq_management].\n");
}
