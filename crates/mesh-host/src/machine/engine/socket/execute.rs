//! Runs a program in a container through the engine, and remembers for a while what a program that only looks said.

use std::time::Duration;

use bollard::{Docker, container::LogOutput, exec::StartExecResults, models::ExecConfig};
use futures_util::StreamExt as _;
use tokio::{
    io::AsyncWriteExt as _,
    time::{Instant, sleep, timeout},
};

use super::{
    super::{Executed, Execution},
    EngineSocket,
    convert::{shorten, words},
};
use crate::{
    failure::{During as _, Failure},
    machine::files::Content,
};

/// A program that writes more than this is not one of ours.
const MOST_OUTPUT: usize = 4 << 20;
/// How much of its complaints is kept: the end.
const MOST_ERRORS: usize = 4096;
/// How long what a program that only looks said is believed.
const BELIEVE_FOR: Duration = Duration::from_mins(10);

/// What was asked, what was said, and when.
pub(super) struct Probed {
    execution: Execution,
    executed: Executed,
    at: Instant,
}

impl EngineSocket {
    pub(super) async fn remembered_probe(&self, execution: &Execution) -> Result<Executed, Failure> {
        // Only while the engine tells when a container ends is it known that this is still the same run of it.
        if self.events.is_open()
            && let Some(probed) = self.probed.borrow().get(&execution.container)
            && let Some(known) = probed.iter().find(|known| known.execution == *execution)
            && known.at.elapsed() < BELIEVE_FOR
        {
            return Ok(known.executed.clone());
        }
        let at = Instant::now();
        let executed = execute(&self.docker().await?, execution).await?;
        let mut probed = self.probed.borrow_mut();
        let probed = probed.entry(execution.container.clone()).or_default();
        probed.retain(|known| known.execution != *execution);
        // What failed is asked again.
        if executed.code == 0 {
            probed.push(Probed { execution: execution.clone(), executed: executed.clone(), at });
        }
        Ok(executed)
    }
}

pub(super) async fn execute(docker: &Docker, execution: &Execution) -> Result<Executed, Failure> {
    let limit = Duration::from_secs(execution.within_s.into());
    timeout(limit, run(docker, execution))
        .await
        .unwrap_or_else(|_| Err(Failure::new(format!("it did not end within {} s", execution.within_s))))
}

async fn run(docker: &Docker, execution: &Execution) -> Result<Executed, Failure> {
    let reads = !execution.input.bytes().is_empty();
    let config = ExecConfig {
        attach_stdin: Some(reads),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        cmd: Some(execution.command.clone()),
        user: execution.user.clone(),
        ..ExecConfig::default()
    };
    let id = docker.create_exec(&execution.container, config).await.map_err(words)?.id;
    let StartExecResults::Attached { mut output, mut input } =
        docker.start_exec(&id, None).await.map_err(words)?
    else {
        return Err(Failure::new("the engine gave no way to read what it writes"));
    };
    let write = async {
        if reads {
            input.write_all(execution.input.bytes()).await?;
        }
        input.shutdown().await
    };
    let (mut written, mut errors) = (Vec::new(), Vec::new());
    let read = async {
        while let Some(chunk) = output.next().await {
            match chunk.map_err(words)? {
                LogOutput::StdErr { message } => errors.extend_from_slice(&message),
                other => written.extend_from_slice(&other.into_bytes()),
            }
            if written.len() > MOST_OUTPUT {
                return Err(Failure::new(format!("it wrote more than {MOST_OUTPUT} bytes")));
            }
            let surplus = errors.len().saturating_sub(MOST_ERRORS);
            errors.drain(..surplus);
        }
        Ok(())
    };
    let (sent, read) = tokio::join!(write, read);
    read?;
    let code = exit_code(docker, &id).await?;
    if code == 0 {
        sent.during("hand it what it reads")?;
    }
    let errors = String::from_utf8_lossy(&errors);
    let errors: Vec<String> = errors.lines().map(shorten).collect();
    Ok(Executed { code, output: Content::new(&written), errors: errors.join(" | ") })
}

/// The engine may close the output a moment before it knows the exit code. The caller's deadline ends this.
async fn exit_code(docker: &Docker, id: &str) -> Result<i64, Failure> {
    loop {
        let found = docker.inspect_exec(id).await.map_err(words)?;
        if found.running == Some(false)
            && let Some(code) = found.exit_code
        {
            return Ok(code);
        }
        sleep(Duration::from_millis(20)).await;
    }
}
