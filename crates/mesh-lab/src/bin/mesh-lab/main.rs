//! The program `mesh-lab`: the library's words at a terminal.
//!
//! It decides nothing; it turns arguments into calls, errors into words and exit codes. Called by people and by
//! `make up` and `make down`.

mod args;
mod show;

use std::error::Error;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitCode};

use clap::{CommandFactory as _, Parser as _};
use mesh_lab::raise::Mesh;
use mesh_lab::{Heal, Input, Lab, LabError, Options, Owner, Progress};

use crate::args::{Cli, Command, Up};

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A closed terminal has nobody to be told.
            let _ = tell(&error);
            ExitCode::from(code(&error))
        }
    }
}

/// The error, what caused it, and where to look.
fn tell(error: &LabError) -> io::Result<()> {
    let mut out = io::stderr().lock();
    write!(out, "mesh-lab: {error}")?;
    let mut source = error.source();
    while let Some(cause) = source {
        write!(out, ": {cause}")?;
        source = cause.source();
    }
    writeln!(out)?;
    error.aftermath().map_or(Ok(()), |text| writeln!(out, "{text}"))
}

fn code(error: &LabError) -> u8 {
    match error {
        LabError::OnNode { source, .. } => code(source),
        LabError::NotUp { .. }
        | LabError::NoNode { .. }
        | LabError::WrongState { .. }
        | LabError::BadName(_) => 3,
        LabError::Unable { .. } | LabError::NotBuilt { .. } | LabError::NotStarted { .. } => 4,
        _ => 1,
    }
}

fn run(cli: Cli) -> Result<(), LabError> {
    let progress = Progress::to(io::stderr());
    match cli.command {
        Command::Up(up) => raise(&options(cli.lab, up), &progress),
        Command::Down { images } => {
            let removed = Lab::down(&cli.lab, &progress)?;
            if images {
                Lab::remove_images(&progress)?;
            }
            let nothing = removed.names.is_empty();
            say(&if nothing {
                format!("lab {} was not up", cli.lab)
            } else {
                format!("lab {} is gone", cli.lab)
            })
        }
        Command::Status { json } => {
            let states = Lab::open(&cli.lab)?.state()?;
            say(&if json { show::json(&states).unwrap_or_default() } else { show::table(&states, &[]) })
        }
        Command::Exec { node, input, command } => {
            let lab = Lab::open(&cli.lab)?;
            become_it(
                lab.running_node(&node)?.command(if input { Input::Passed } else { terminal() }, command),
            )
        }
        Command::Cut { node } => {
            Lab::open(&cli.lab)?.node(&node)?.cut()?;
            say(&format!("{node} is cut off; `mesh-lab heal {node}` gives its network back"))
        }
        Command::Heal { node, at } => {
            let lab = Lab::open(&cli.lab)?;
            let found = lab.node(&node)?;
            found.heal(at.map_or(Heal::SameAddress, Heal::At))?;
            say(&format!("{node} has its network back, at {}", at.unwrap_or(found.address())))
        }
        Command::Reboot { node } => {
            let booted = Lab::open(&cli.lab)?.running_node(&node)?.reboot()?;
            say(&format!("{node} has booted again{booted}"))
        }
        Command::Kill { node } => {
            Lab::open(&cli.lab)?.running_node(&node)?.kill()?;
            say(&format!("{node} is off; `mesh-lab start {node}` switches it on"))
        }
        Command::Start { node } => {
            let booted = Lab::open(&cli.lab)?.node(&node)?.start()?;
            say(&format!("{node} is on{booted}"))
        }
        Command::Logs { node, follow, unit, lines } => {
            let lab = Lab::open(&cli.lab)?;
            if follow {
                let lines = lines.to_string();
                let mut args = vec!["journalctl", "--no-pager", "--follow", "--lines", &lines];
                args.extend(unit.iter().flat_map(|unit| ["--unit", unit]));
                return become_it(lab.running_node(&node)?.command(terminal(), args));
            }
            say(&lab.node(&node)?.journal_lines(unit.as_deref(), lines)?)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "mesh-lab", &mut script);
            // Who reads only its beginning has what was wanted.
            let _ = io::Write::write_all(&mut io::stdout(), &script);
            Ok(())
        }
    }
}

fn options(name: mesh_lab::LabName, up: Up) -> Options {
    Options {
        name,
        nodes: up.nodes,
        bare: up.bare,
        dist: up.dist.unwrap_or_else(default_dist),
        image: up.image,
        subnet: up.subnet,
        owner: Owner::Person,
        taken_down: false,
        bundle: !up.nodes_only,
    }
}

/// Beside this program if what it needs is there, else `./dist`.
fn default_dist() -> PathBuf {
    let beside = std::env::current_exe().ok().and_then(|program| program.parent().map(PathBuf::from));
    beside.filter(|folder| folder.join("mesh-host").exists()).unwrap_or_else(|| PathBuf::from("dist"))
}

/// What to try first, as it can be typed in this folder.
fn next(dist: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let dist = std::fs::canonicalize(dist).unwrap_or_else(|_| dist.to_owned());
    let dist = dist.strip_prefix(&here).unwrap_or(&dist);
    let row = |program: &str, words: &str, what: &str| {
        format!("\n  {:<34} {what}", format!("{}/{program} {words}", dist.display()))
    };
    [
        "\nTry next:".to_owned(),
        row("mesh", "node list", "who is there"),
        row("mesh", "apply -f examples/hello", "put something on two nodes"),
        row("mesh", "events", "what happened"),
        row("mesh-lab", "cut node-2", "take a node's network away"),
        row("mesh-lab", "heal node-2", "give it back"),
        row("mesh-lab", "down", "leave nothing behind"),
    ]
    .concat()
}

fn raise(options: &Options, progress: &Progress) -> Result<(), LabError> {
    let lab = Lab::up(options, progress)?;
    let mut changed = lab.has_changed();
    let mut listed = Vec::new();
    if options.bundle {
        let mesh = Mesh::raise(&lab, &options.dist, progress)?;
        changed |= mesh.has_changed();
        listed = mesh.nodes()?;
    }
    let what = if changed { "is up" } else { "was up already; nothing changed" };
    let took = progress.elapsed().as_secs_f64();
    say(&format!("lab {} {what} ({took:.1} s)\n\n{}", lab.name(), show::table(&lab.state()?, &listed)))?;
    if options.bundle { say(&next(&options.dist)) } else { Ok(()) }
}

/// The terminal, where there is one for both directions.
fn terminal() -> Input {
    if io::stdin().is_terminal() && io::stdout().is_terminal() { Input::Terminal } else { Input::None }
}

/// Ends as the other program ends; returns only if that cannot be started.
fn become_it(mut command: Process) -> Result<(), LabError> {
    let source = command.exec();
    Err(LabError::NotStarted { command: command.get_program().to_string_lossy().into_owned(), source })
}

fn say(text: &str) -> Result<(), LabError> {
    let mut out = io::stdout();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    match written {
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => {
            Err(LabError::File { act: "write to", path: "standard output".into(), source })
        }
        _ => Ok(()),
    }
}
