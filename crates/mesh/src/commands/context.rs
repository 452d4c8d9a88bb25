//! `mesh context list|use|add|remove`.

use std::{fs, io::Read as _, process::ExitCode};

use anyhow::Context as _;
use mesh_client::{Context, ContextStore};
use serde_json::json;

use crate::{
    cli::ContextCommand,
    output::{self, Format},
};

pub(super) fn run(
    contexts: &ContextStore,
    command: ContextCommand,
    format: Format,
) -> anyhow::Result<ExitCode> {
    match command {
        ContextCommand::List => list(contexts, format)?,
        ContextCommand::Use { name } => {
            contexts.choose(&name)?;
            output::remark(&format!("{name} is the current context"));
        }
        ContextCommand::Add { file } => {
            let mut text = String::new();
            if file.as_os_str() == "-" {
                std::io::stdin().read_to_string(&mut text).context("read the context from standard input")?;
            } else {
                text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
            }
            let context: Context = serde_json::from_str(&text).context("read the context")?;
            let path = contexts.save(&context)?;
            contexts.choose(&context.name)?;
            output::remark(&format!("{} is the current context, kept in {}", context.name, path.display()));
        }
        ContextCommand::Remove { name } => contexts.remove(&name)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(contexts: &ContextStore, format: Format) -> anyhow::Result<()> {
    let current = contexts.current()?;
    let names = contexts.list()?;
    let is_current = |name: &String| current.as_ref() == Some(name);
    match format {
        Format::Json => {
            let items: Vec<_> =
                names.iter().map(|name| json!({"name": name, "current": is_current(name)})).collect();
            output::json(&items)?;
        }
        Format::Human => {
            let mark = |name| if is_current(name) { "*".to_owned() } else { String::new() };
            output::table(&["", "CONTEXT"], names.iter().map(|name| vec![mark(name), name.clone()]));
        }
    }
    Ok(())
}
