//! `mesh plan`, `mesh apply` and the change part of `mesh module remove`: plan, show, ask, apply as planned, wait.

use std::{
    fs,
    io::{self, IsTerminal as _},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use anyhow::bail;
use mesh_api::{
    Applied, ApplyRequest, Change, InstanceState, ModuleView, NodeState, NodeView, Plan, PlanRequest,
    ProblemCode, StepAction,
};
use mesh_client::{Client, Error};
use mesh_ids::ModuleName;
use mesh_manifest::Manifest;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    cli::{ApplyArgs, ChangeOptions, PlanArgs},
    commands::{module, node},
    exit::Unread,
    output::{self, Format},
};

/// `plan --exit-code`: there is something to change.
const SOMETHING_TO_CHANGE: u8 = 10;

/// `mesh plan -f`.
pub(super) async fn plan(client: &Client, args: &PlanArgs, format: Format) -> anyhow::Result<ExitCode> {
    let plan = client.plan(&PlanRequest { what: read(&args.file)? }).await?;
    match format {
        Format::Json => output::json(&plan)?,
        Format::Human => {
            print(&plan);
            tell_silent(client, &plan).await;
        }
    }
    let changes = args.exit_code && !plan.nodes.is_empty();
    Ok(if changes { ExitCode::from(SOMETHING_TO_CHANGE) } else { ExitCode::SUCCESS })
}

/// `mesh apply -f`.
pub(super) async fn apply(client: &Client, args: &ApplyArgs, format: Format) -> anyhow::Result<ExitCode> {
    carry_out(client, read(&args.file)?, &args.options, format).await
}

/// Plans a change, shows it, asks where somebody can answer, applies it as planned and waits for the nodes.
pub(super) async fn carry_out(
    client: &Client,
    what: Change,
    options: &ChangeOptions,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let plan = client.plan(&PlanRequest { what: what.clone() }).await?;
    let removes = matches!(what, Change::Remove { .. });
    if removes && plan.nodes.is_empty() {
        return remove_from_nowhere(client, plan, what, options, format).await;
    }
    if format == Format::Human {
        print(&plan);
        tell_silent(client, &plan).await;
    }
    if plan.nodes.is_empty() {
        if format == Format::Json {
            output::json(&json!({"module": plan.module, "nodes": [], "state": null}))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let somebody_there = io::stdin().is_terminal() && format == Format::Human;
    if !options.yes && somebody_there && !output::ask("\nApply this?")? {
        output::remark("Nothing was changed.");
        return Ok(ExitCode::SUCCESS);
    }
    let applied = client.apply(&ApplyRequest { index: plan.index, what }).await?;
    let state = if options.no_wait { None } else { wait(client, &applied, removes, options, format).await? };
    if format == Format::Json {
        output::json(&json!({"module": applied.module, "nodes": applied.nodes, "state": state}))?;
    }
    let failed =
        state.is_some_and(|view| view.instances.iter().any(|one| one.state == InstanceState::Failed));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Takes a module away whose removal changes nothing on any node any more: it was removed already, which whoever lost the
/// answer asks for again, or it was on no node.
async fn remove_from_nowhere(
    client: &Client,
    plan: Plan,
    what: Change,
    options: &ChangeOptions,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let view = look(client, &plan.module).await?;
    if format == Format::Human {
        match &view {
            None => output::remark(&format!("{} is already removed", plan.module)),
            Some(view) if !view.instances.is_empty() => {
                output::remark(&format!("{} is already being removed", plan.module));
            }
            Some(_) => {}
        }
    }
    let applied = client.apply(&ApplyRequest { index: plan.index, what }).await?;
    if view.is_some() && !options.no_wait {
        wait(client, &applied, true, options, format).await?;
    }
    if format == Format::Json {
        output::json(&json!({"module": applied.module, "nodes": applied.nodes, "state": null}))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the manifest of a file or a folder, every file's content inlined.
fn read(path: &Path) -> anyhow::Result<Change> {
    let file = if path.is_dir() { path.join("module.toml") } else { path.to_owned() };
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    let text = fs::read_to_string(&file).map_err(|error| {
        let hint = if error.kind() == io::ErrorKind::NotFound {
            ": -f takes a manifest, or the folder that has one as module.toml"
        } else {
            ""
        };
        Unread { path: file.display().to_string(), reason: format!("{error}{hint}") }
    })?;
    let manifest = Manifest::from_toml(&file.display().to_string(), &text, |relative| {
        load(&folder, relative).map_err(|error| error.to_string())
    })?;
    Ok(Change::Apply { manifest: manifest.to_json() })
}

/// Reads a file next to the manifest; a link that leads out of its folder is refused.
fn load(folder: &Path, relative: &str) -> io::Result<Vec<u8>> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (folder, file) = (folder.canonicalize()?, folder.join(relative).canonicalize()?);
    if file.starts_with(&folder) {
        fs::read(file)
    } else {
        Err(io::Error::other("it leads out of the folder of the manifest"))
    }
}

fn print(plan: &Plan) {
    if plan.nodes.is_empty() {
        output::line(&format!("{}: no change", plan.module));
        return;
    }
    let count =
        |action| plan.nodes.iter().flat_map(|node| &node.steps).filter(|step| step.action == action).count();
    for node in &plan.nodes {
        output::line(&format!("{}:", node.node));
        for step in &node.steps {
            output::line(&format!("  {} {}", sign(step.action), output::printable(&step.resource)));
            for detail in &step.details {
                output::line(&format!("      {}", output::printable(detail)));
            }
        }
    }
    output::line(&format!(
        "\n{}: {} to add, {} to change, {} to remove on {}",
        plan.module,
        count(StepAction::Add),
        count(StepAction::Change),
        count(StepAction::Remove),
        output::count(plan.nodes.len(), "node")
    ));
}

/// Says which of the nodes are not there to hear of the change now. The plan stands without it: where the list cannot be
/// had, nothing is said.
async fn tell_silent(client: &Client, plan: &Plan) {
    if plan.nodes.is_empty() {
        return;
    }
    let Ok(nodes) = client.nodes().await else { return };
    let nodes = nodes.items;
    let concerned = |view: &&NodeView| plan.nodes.iter().any(|node| node.node == view.name);
    for view in nodes.iter().filter(concerned).filter(|view| view.state != NodeState::Connected) {
        output::line(&format!(
            "{} is {}, last heard {}: it gets this when it is connected again",
            view.name,
            node::state(view.state),
            node::heard(view)
        ));
    }
}

const fn sign(action: StepAction) -> char {
    match action {
        StepAction::Add => '+',
        StepAction::Change => '~',
        StepAction::Remove => '-',
    }
}

/// How long to wait before the control plane is looked for again: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Waits until every node reported the module, or reported that part of it failed. The change is recorded by now and goes
/// its way whoever watches: a control plane that does not answer for a while is waited for.
async fn wait(
    client: &Client,
    applied: &Applied,
    removes: bool,
    options: &ChangeOptions,
    format: Format,
) -> anyhow::Result<Option<ModuleView>> {
    let deadline = Instant::now() + options.timeout;
    let within = humantime::format_duration(options.timeout);
    let declared =
        format!("the change stays declared, `mesh module show {}` tells how far it is", applied.module);
    let mut wait = Wait {
        client,
        applied,
        removes,
        format,
        said: String::new(),
        open: Vec::new(),
        pause: PAUSE.0,
        silent: None,
    };
    let mut told = false;
    loop {
        match timeout_at(deadline, wait.follow()).await {
            Ok(Ok(Seen::Settled(view))) => return Ok(settle(view, &applied.module, format)),
            Ok(Ok(Seen::Ended)) => {}
            Ok(Err(error)) if does_not_answer(&error) => {
                if !told && format == Format::Human {
                    output::remark(&format!(
                        "the control plane does not answer; waiting for it, and {declared} (Ctrl-C ends the waiting only)"
                    ));
                    told = true;
                }
                wait.silent = Some(error);
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => break,
        }
        let pause = wait.pause;
        wait.pause = (pause * 2).min(PAUSE.1);
        if timeout_at(deadline, sleep(pause)).await.is_err() {
            break;
        }
    }
    if let Some(error) = wait.silent {
        let why = format!("the control plane did not answer within {within}; {declared}");
        return Err(anyhow::Error::new(error).context(why));
    }
    let whom = if wait.open.is_empty() { "the control plane".to_owned() } else { wait.open.join(", ") };
    bail!("{whom} did not report within {within}; {declared}")
}

/// Whether waiting helps: nobody is there, or what is there lacks something for the moment.
pub(super) fn does_not_answer(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } => true,
        Error::Refused(problem) => problem.code == ProblemCode::Unavailable,
        _ => false,
    }
}

/// What is waited for.
struct Wait<'a> {
    client: &'a Client,
    applied: &'a Applied,
    removes: bool,
    format: Format,
    /// What was said last of whom it waits for.
    said: String,
    /// The nodes waited for, as far as is known.
    open: Vec<String>,
    /// How long to wait before the next attempt.
    pause: Duration,
    /// Why the control plane did not answer the last time, if it did not.
    silent: Option<Error>,
}

/// How following the module ended.
enum Seen {
    /// Nothing is waited for any more.
    Settled(Option<ModuleView>),
    /// The control plane ended the stream.
    Ended,
}

impl Wait<'_> {
    /// Looks at the module again whenever something of it changes.
    async fn follow(&mut self) -> Result<Seen, Error> {
        let mut stream = self.client.watch("modules", Some(&self.applied.cursor)).await?;
        loop {
            let view = look(self.client, &self.applied.module).await?;
            (self.pause, self.silent) = (PAUSE.0, None);
            self.open = view
                .iter()
                .flat_map(|view| &view.instances)
                .filter(|one| unsettled(one.state))
                .map(|one| one.node.to_string())
                .collect();
            let settled = match &view {
                None => self.removes,
                Some(view) => !self.removes && self.open.is_empty() && !view.instances.is_empty(),
            };
            if settled {
                return Ok(Seen::Settled(view));
            }
            let now = format!("waiting for {}", self.open.join(", "));
            if now != self.said && self.format == Format::Human && !self.open.is_empty() {
                output::remark(&now);
                self.said = now;
            }
            if stream.next().await?.is_none() {
                return Ok(Seen::Ended);
            }
        }
    }
}

async fn look(client: &Client, module: &ModuleName) -> Result<Option<ModuleView>, Error> {
    match client.module(module).await {
        Ok(view) => Ok(Some(view)),
        Err(Error::Refused(problem)) if problem.code == ProblemCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

const fn unsettled(state: InstanceState) -> bool {
    matches!(state, InstanceState::Pending | InstanceState::Removing)
}

fn settle(view: Option<ModuleView>, name: &ModuleName, format: Format) -> Option<ModuleView> {
    if format == Format::Human {
        match &view {
            None => output::remark(&format!("{name} is gone")),
            Some(view) => {
                for one in &view.instances {
                    output::remark(&format!("{}: {}", one.node, module::state(one.state)));
                    for (id, why) in &one.failed {
                        output::remark(&format!("  {}: {}", output::printable(id), output::printable(why)));
                    }
                }
            }
        }
    }
    view
}
