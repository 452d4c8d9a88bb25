//! One node: what a test or a person does to it.
//!
//! It looks at the engine for every answer and remembers nothing, so a handle is never out of date. It never knows what
//! runs on the node, except that a node has a systemd and may have a host unit. Made by [`crate::Lab`].

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use crate::engine::{Container, Engine};
use crate::error::LabError;
use crate::process::{Call, Output};
use crate::wait::wait_for;

/// The host's unit.
pub const HOST_UNIT: &str = "mesh-host.service";

/// How long a command in a node may take when nobody says otherwise.
const COMMAND: Duration = Duration::from_mins(1);
/// How long a node may take to boot. It takes 1.5 s on a quiet machine.
const BOOT: Duration = Duration::from_secs(90);

/// A node of a lab.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) engine: Engine,
    pub(crate) name: String,
    pub(crate) container: String,
    pub(crate) network: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) journal: PathBuf,
}

/// How far a node's systemd has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Booted {
    /// Everything is up.
    Running,
    /// Up, but for these units.
    Degraded(Vec<String>),
}

/// What is not up, to be put after a sentence.
impl fmt::Display for Booted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => Ok(()),
            Self::Degraded(units) => write!(f, ", without {}", units.join(", ")),
        }
    }
}

/// What a command started with [`Node::command`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    None,
    /// The caller's standard input; a command that does not read all of it may lose its output.
    Passed,
    /// The caller's terminal.
    Terminal,
}

/// Which address a node gets when it is healed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heal {
    /// The one it was raised with.
    SameAddress,
    /// This one: as when a machine moved, or its provider gave it another address.
    At(Ipv4Addr),
}

/// A node at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// The address it was raised with.
    pub address: Ipv4Addr,
    /// The address it has now; none while it is cut off or not running.
    pub present_address: Option<Ipv4Addr>,
    /// The container's state in the engine's words; `running` is the one in which anything else can be asked.
    pub container: String,
    /// What systemd says of the whole (`running`, `degraded`, `starting` …).
    pub systemd: Option<String>,
    /// What systemd says of the host (`active`, `failed` …); `absent` where there is no such unit.
    pub host: Option<String>,
    /// Whether it is cut off from the network.
    pub cut: bool,
}

impl Node {
    /// Its name, such as `node-2`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address it was raised with, and has unless it was healed at another.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The folder of this machine in which the node's journal lies, also when the node does not run.
    pub fn journal(&self) -> &Path {
        &self.journal
    }

    /// Runs a command in the node, for at most a minute; any exit code is an answer.
    pub fn exec<S: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = S>) -> Result<Output, LabError> {
        self.call(&[], command, COMMAND).answer()
    }

    /// The same, and what the command printed; any exit code but 0 is an error.
    pub fn run<S: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = S>) -> Result<String, LabError> {
        self.call(&[], command, COMMAND).run().map(|output| output.text().to_owned())
    }

    /// The same with a text on its standard input (never in the process list), ended by a new line, and its own deadline.
    ///
    /// The text is taken in whole before the command starts: the engine loses all output of a command that ends without
    /// having read its input, and with it the reason why it failed.
    pub fn run_with_input<S: AsRef<OsStr>>(
        &self,
        command: impl IntoIterator<Item = S>,
        input: &str,
        deadline: Duration,
    ) -> Result<String, LabError> {
        const TAKE_IN: [&str; 4] = ["sh", "-c", r#"text=$(cat); printf '%s\n' "$text" | "$@""#, "sh"];
        let words = TAKE_IN.iter().map(OsString::from);
        let words = words.chain(command.into_iter().map(|word| word.as_ref().to_owned()));
        self.call(&["--interactive"], words, deadline)
            .input(input)
            .run()
            .map(|output| output.text().to_owned())
    }

    /// The same without input, telling each line as it is printed.
    pub fn run_telling<S: AsRef<OsStr>>(
        &self,
        command: impl IntoIterator<Item = S>,
        deadline: Duration,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<String, LabError> {
        let call = self.engine.exec(&self.container, &[], command, deadline);
        call.on_line(on_line).run().map(|output| output.text().to_owned())
    }

    /// A command for the caller to start with its own terminal or pipes, where no deadline makes sense.
    pub fn command<S: AsRef<OsStr>>(&self, input: Input, command: impl IntoIterator<Item = S>) -> Command {
        let flags: &[&str] = match input {
            Input::Terminal => &["--interactive", "--tty"],
            Input::Passed => &["--interactive"],
            Input::None => &[],
        };
        self.call(flags, command, COMMAND).into_command()
    }

    fn call<S: AsRef<OsStr>>(
        &self,
        flags: &[&str],
        command: impl IntoIterator<Item = S>,
        deadline: Duration,
    ) -> Call<'static> {
        self.engine.exec(&self.container, flags, command, deadline)
    }

    /// Puts a file of this machine into the node, in one step for whoever reads it there.
    pub fn put(&self, file: &Path, path: &str) -> Result<(), LabError> {
        let fresh = format!("{path}.new");
        self.engine.copy_in(file, &self.container, &fresh)?;
        self.run(["mv", "-f", &fresh, path]).map(drop)
    }

    /// The content of a file in the node.
    pub fn read(&self, path: &str) -> Result<String, LabError> {
        self.call(&[], ["cat", path], COMMAND).run().map(|output| output.stdout)
    }

    /// Takes its network away: nothing reaches it and it reaches nothing. A node already cut off stays so.
    pub fn cut(&self) -> Result<(), LabError> {
        if self.is_cut()? { Ok(()) } else { self.engine.disconnect(&self.network, &self.container) }
    }

    /// Gives it back. A node that has a network keeps it, unless another address is asked for.
    pub fn heal(&self, how: Heal) -> Result<(), LabError> {
        let wanted = match how {
            Heal::SameAddress => self.address,
            Heal::At(address) => address,
        };
        match self.inspect()?.address_on(&self.network) {
            Some(present) if present == wanted.to_string() => return Ok(()),
            Some(_) => self.engine.disconnect(&self.network, &self.container)?,
            None => {}
        }
        self.engine.connect(&self.network, &self.container, wanted, &self.hardware_address(), &self.name)
    }

    /// Its network card keeps its address when it is unplugged, or its neighbours would look for it in vain until they
    /// forget the old one.
    pub(crate) fn hardware_address(&self) -> String {
        let [a, b, c, d] = self.address.octets();
        format!("02:6d:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
    }

    /// Whether it is cut off.
    pub fn is_cut(&self) -> Result<bool, LabError> {
        Ok(self.inspect()?.address_on(&self.network).is_none())
    }

    /// Shuts it down in order and boots it again; what is cut off stays cut off. Back when it has booted.
    pub fn reboot(&self) -> Result<Booted, LabError> {
        self.engine.restart(&self.container)?;
        self.wait_booted()
    }

    /// Cuts its power: everything in it ends at once. The page cache survives, as it is the machine's.
    pub fn kill(&self) -> Result<(), LabError> {
        self.engine.kill(&self.container)
    }

    /// Switches it on, if it is off. Back when it has booted.
    pub fn start(&self) -> Result<Booted, LabError> {
        if !self.is_running()? {
            self.engine.start(&self.container)?;
        }
        self.wait_booted()
    }

    /// Whether it is switched on.
    pub fn is_running(&self) -> Result<bool, LabError> {
        Ok(self.inspect()?.is_running())
    }

    /// Waits until systemd has nothing left to start.
    pub fn wait_booted(&self) -> Result<Booted, LabError> {
        wait_for(&format!("{} to boot", self.name), BOOT, || {
            let said = self.system_state().map_err(|error| error.to_string())?;
            match said.as_str() {
                "running" => Ok(Booted::Running),
                "degraded" => Ok(Booted::Degraded(self.failed_units().map_err(|error| error.to_string())?)),
                other => {
                    Err(format!("its systemd says {other:?}; its journal is in {}", self.journal.display()))
                }
            }
        })
    }

    fn system_state(&self) -> Result<String, LabError> {
        let output = self.exec(["systemctl", "is-system-running"])?;
        let said = if output.text().is_empty() { output.stderr.trim() } else { output.text() };
        Ok(said.to_owned())
    }

    fn failed_units(&self) -> Result<Vec<String>, LabError> {
        let listed =
            self.run(["systemctl", "list-units", "--failed", "--plain", "--no-legend", "--no-pager"])?;
        Ok(listed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
    }

    /// What it is like now.
    pub fn state(&self) -> Result<NodeState, LabError> {
        let container = self.inspect()?;
        let present = container.address_on(&self.network);
        let mut state = NodeState {
            name: self.name.clone(),
            address: self.address,
            present_address: present.and_then(|address| address.parse().ok()),
            container: container.state.status.clone(),
            systemd: None,
            host: None,
            cut: present.is_none(),
        };
        if container.is_running() {
            state.systemd = Some(self.system_state()?);
            state.host = Some(self.host_state()?);
        }
        Ok(state)
    }

    fn host_state(&self) -> Result<String, LabError> {
        let shown = self.run(["systemctl", "show", "--property=LoadState,ActiveState", HOST_UNIT])?;
        let value = |name: &str| shown.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("unknown");
        Ok(if value("LoadState=") == "not-found" { "absent" } else { value("ActiveState=") }.to_owned())
    }

    /// The last lines of its journal, of one unit or of all; read from its folder when the node does not run.
    pub fn journal_lines(&self, unit: Option<&str>, count: usize) -> Result<String, LabError> {
        let count = count.to_string();
        let mut args = vec!["journalctl", "--no-pager", "--output", "short-precise", "--lines", &count];
        args.extend(unit.iter().flat_map(|unit| ["--unit", unit]));
        if self.is_running()? {
            return self.run(args);
        }
        let call = Call::new(args[0], COMMAND)
            .args(&args[1..])
            .args(["--directory".as_ref(), self.journal.as_os_str()]);
        call.run().map(|output| output.text().to_owned())
    }

    /// Writes what is worth reading after a failure into `folder`: the whole journal, and the containers inside.
    pub fn dump(&self, folder: &Path) -> Result<(), LabError> {
        fs::create_dir_all(folder).map_err(LabError::file("make", folder))?;
        let write = |kind: &str, text: &str| {
            let path = folder.join(format!("{}.{kind}", self.name));
            fs::write(&path, text).map_err(LabError::file("write", &path))
        };
        let or_why = |answer: Result<String, LabError>| {
            answer.unwrap_or_else(|error| format!("not to be had: {error}"))
        };
        write("journal", &or_why(self.journal_lines(None, 1_000_000)))?;
        write("containers", &or_why(self.run(["podman", "ps", "--all", "--no-trunc"])))
    }

    pub(crate) fn inspect(&self) -> Result<Container, LabError> {
        let found = self.engine.inspect(std::slice::from_ref(&self.container))?.into_iter().next();
        found.ok_or_else(|| LabError::Unreadable {
            command: "podman container inspect".to_owned(),
            why: format!("nothing was said of {}", self.container),
        })
    }
}
