//! `mesh plan`, `mesh apply` and the change part of `mesh module remove`: plan, show, ask, apply as planned, wait.

use std::{
    fs,
    io::{self, IsTerminal as _},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use mesh_api::{
    Applied, ApplyRequest, Change, InstanceState, ModuleView, Plan, PlanRequest, ProblemCode, StepAction,
};
use mesh_client::{Client, Error};
use mesh_ids::ModuleName;
use mesh_manifest::Manifest;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::{
    cli::{ApplyArgs, ChangeOptions, PlanArgs},
    commands::module,
    output::{self, Format},
};

/// `plan --exit-code`: there is something to change.
const SOMETHING_TO_CHANGE: u8 = 10;

/// `mesh plan -f`.
pub(super) async fn plan(client: &Client, args: &PlanArgs, format: Format) -> anyhow::Result<ExitCode> {
    let plan = client.plan(&PlanRequest { what: read(&args.file)? }).await?;
    match format {
        Format::Json => output::json(&plan)?,
        Format::Human => print(&plan),
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
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
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
        "\n{}: {} to add, {} to change, {} to remove on {} nodes",
        plan.module,
        count(StepAction::Add),
        count(StepAction::Change),
        count(StepAction::Remove),
        plan.nodes.len()
    ));
}

const fn sign(action: StepAction) -> char {
    match action {
        StepAction::Add => '+',
        StepAction::Change => '~',
        StepAction::Remove => '-',
    }
}

/// Waits until every node reported the module, or reported that part of it failed.
async fn wait(
    client: &Client,
    applied: &Applied,
    removes: bool,
    options: &ChangeOptions,
    format: Format,
) -> anyhow::Result<Option<ModuleView>> {
    let deadline = Instant::now() + options.timeout;
    let mut stream = client.watch("modules", Some(&applied.cursor)).await?;
    let mut said = String::new();
    loop {
        let view = look(client, &applied.module).await?;
        let open: Vec<String> = view
            .iter()
            .flat_map(|view| &view.instances)
            .filter(|one| unsettled(one.state))
            .map(|one| one.node.to_string())
            .collect();
        let settled = match &view {
            None => removes,
            Some(view) => !removes && open.is_empty() && !view.instances.is_empty(),
        };
        if settled {
            return Ok(settle(view, &applied.module, format));
        }
        let now = format!("waiting for {}", open.join(", "));
        if now != said && format == Format::Human && !open.is_empty() {
            output::remark(&now);
            said = now;
        }
        match timeout_at(deadline, stream.next()).await {
            Ok(Ok(Some(_))) => {}
            Ok(Ok(None) | Err(Error::Unreachable { .. })) => {
                stream = client.watch("modules", Some(&applied.cursor)).await?;
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => bail!(
                "{} did not report within {}; the change stays declared, `mesh module show {}` tells how far it is",
                open.join(", "),
                humantime::format_duration(options.timeout),
                applied.module
            ),
        }
    }
}

async fn look(client: &Client, module: &ModuleName) -> anyhow::Result<Option<ModuleView>> {
    match client.module(module).await {
        Ok(view) => Ok(Some(view)),
        Err(Error::Refused(problem)) if problem.code == ProblemCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
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
