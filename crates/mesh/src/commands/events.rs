//! `mesh events`: what happened, and with `--follow` what happens.

use std::process::ExitCode;

use mesh_api::EventView;
use mesh_client::{Client, Error};

use crate::{
    cli::EventsArgs,
    output::{self, Format},
};

pub(super) async fn run(client: &Client, args: &EventsArgs, format: Format) -> anyhow::Result<ExitCode> {
    let list = client.events(None, args.limit).await?;
    let shown: Vec<_> = list.items.into_iter().filter(|event| wanted(event, args)).collect();
    if format == Format::Json && !args.follow {
        output::json(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    for event in &shown {
        print(event, format)?;
    }
    if args.follow {
        follow(client, args, list.cursor, format).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Goes on until interrupted. A stream that breaks off is taken up again where it ended.
async fn follow(
    client: &Client,
    args: &EventsArgs,
    mut cursor: String,
    format: Format,
) -> anyhow::Result<()> {
    const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);
    loop {
        match client.watch("events", Some(&cursor)).await {
            Ok(mut stream) => loop {
                match stream.next().await {
                    Ok(Some(message)) if message.event == "event" => {
                        let event: EventView = message.read()?;
                        cursor.clone_from(&event.cursor);
                        if wanted(&event, args) {
                            print(&event, format)?;
                        }
                    }
                    Ok(Some(_)) => {}
                    Ok(None) | Err(Error::Unreachable { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
            },
            Err(Error::Unreachable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn wanted(event: &EventView, args: &EventsArgs) -> bool {
    (args.node.is_none() || args.node == event.node) && (args.module.is_none() || args.module == event.module)
}

fn print(event: &EventView, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json => output::json_line(event),
        Format::Human => {
            let [at, kind, summary] =
                [&event.at, &event.event, &event.summary].map(|text| output::printable(text));
            output::line(&format!("{at}  {kind:<18}  {summary}"));
            Ok(())
        }
    }
}
