//! Runs one program to its end: argument vectors, never a shell; always with a deadline; the command named in errors.
//!
//! The only place of this crate that starts processes. Called by [`crate::engine`] and by what installs packages.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::LabError;

/// What is written to the program's standard input; the thread that runs it owns it.
type Feed = Box<dyn FnOnce(&mut dyn io::Write) -> io::Result<()> + Send>;

/// Is told each line the program prints, as it prints it.
type OnLine<'a> = &'a mut dyn FnMut(&str);

/// How long output may still arrive after the program itself has ended (a descendant may hold the pipe open).
const AFTERMATH: Duration = Duration::from_secs(1);

/// What a program came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The exit code; 128 plus the signal's number when a signal ended it, as shells count.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Standard output without the white space around it.
    pub fn text(&self) -> &str {
        self.stdout.trim()
    }
}

/// One program to be run.
pub(crate) struct Call<'a> {
    program: OsString,
    args: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    feed: Option<Feed>,
    on_line: Option<OnLine<'a>>,
    deadline: Duration,
}

enum Piece {
    Out(Vec<u8>),
    Err(Vec<u8>),
}

impl<'a> Call<'a> {
    pub(crate) fn new(program: impl AsRef<OsStr>, deadline: Duration) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            environment: Vec::new(),
            feed: None,
            on_line: None,
            deadline,
        }
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn environment(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Gives the program these bytes to read. What must not be seen in arguments goes here.
    pub(crate) fn input(self, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        self.feed(move |out| out.write_all(&bytes))
    }

    /// Gives the program what `feed` writes.
    pub(crate) fn feed(
        mut self,
        feed: impl FnOnce(&mut dyn io::Write) -> io::Result<()> + Send + 'static,
    ) -> Self {
        self.feed = Some(Box::new(feed));
        self
    }

    /// Hands each line on as it is printed.
    pub(crate) fn on_line(mut self, on_line: OnLine<'a>) -> Self {
        self.on_line = Some(on_line);
        self
    }

    /// Runs it; any exit code but 0 is an error.
    pub(crate) fn run(self) -> Result<Output, LabError> {
        let command = self.shown();
        let output = self.answer()?;
        if output.code == 0 {
            return Ok(output);
        }
        let said = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
        Err(LabError::Failed { command, code: output.code, last: last_lines(said, 12) })
    }

    /// Runs it; every exit code is an answer.
    pub(crate) fn answer(mut self) -> Result<Output, LabError> {
        let end = Instant::now() + self.deadline;
        let mut child = self.start()?;
        let pieces = self.attend(&mut child);
        let mut gathered = Gathered::default();
        let ended = gathered.until_end(&pieces, &mut child, end, &mut self.on_line);
        match ended {
            Ok(Some(status)) => Ok(Output {
                code: code_of(status),
                stdout: gathered.stdout.finish(&mut self.on_line),
                stderr: without_noise(&gathered.stderr.finish(&mut self.on_line)),
            }),
            Ok(None) => {
                // Too late for it to matter whether it can still be ended: the deadline is the error.
                let _ = child.kill();
                let _ = child.wait();
                let stderr = gathered.stderr.finish(&mut self.on_line);
                let said =
                    if stderr.trim().is_empty() { gathered.stdout.finish(&mut self.on_line) } else { stderr };
                Err(LabError::Overran {
                    command: self.shown(),
                    deadline: self.deadline,
                    last: last_lines(&without_noise(&said), 12),
                })
            }
            Err(source) => Err(LabError::NotStarted { command: self.shown(), source }),
        }
    }

    /// The command line as a person would type it. What was given as input is not part of it.
    pub(crate) fn shown(&self) -> String {
        let mut shown = self.program.to_string_lossy().into_owned();
        for arg in &self.args {
            let arg = arg.to_string_lossy();
            shown.push(' ');
            if arg.is_empty() || arg.contains(|c: char| c.is_whitespace() || "'\"$&|;<>(){}*?".contains(c)) {
                shown.push('\'');
                shown.push_str(&arg);
                shown.push('\'');
            } else {
                shown.push_str(&arg);
            }
        }
        shown
    }

    /// The same as a command for the caller to run with this terminal, where no deadline makes sense.
    pub(crate) fn into_command(self) -> Command {
        let mut command = Command::new(self.program);
        command.args(self.args).envs(self.environment);
        command
    }

    fn start(&self) -> Result<Child, LabError> {
        Command::new(&self.program)
            .args(&self.args)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(if self.feed.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| LabError::NotStarted { command: self.shown(), source })
    }

    /// Starts the threads that feed and read the child.
    fn attend(&mut self, child: &mut Child) -> Receiver<Piece> {
        if let (Some(feed), Some(mut stdin)) = (self.feed.take(), child.stdin.take()) {
            thread::spawn(move || {
                // A program that does not want all of its input says so by its exit code.
                let _ = feed(&mut stdin);
            });
        }
        let (sender, pieces) = sync_channel(64);
        if let Some(stdout) = child.stdout.take() {
            let sender = sender.clone();
            thread::spawn(move || read_pieces(stdout, &sender, Piece::Out));
        }
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || read_pieces(stderr, &sender, Piece::Err));
        }
        pieces
    }
}

fn read_pieces(mut from: impl Read, to: &SyncSender<Piece>, piece: fn(Vec<u8>) -> Piece) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read) = from.read(&mut buffer) {
        if read == 0 || to.send(piece(buffer[..read].to_vec())).is_err() {
            return;
        }
    }
}

/// Bytes of one stream, and how far its lines were handed on.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    told: usize,
}

impl Stream {
    fn add(&mut self, bytes: &[u8], on_line: &mut Option<OnLine<'_>>) {
        self.bytes.extend_from_slice(bytes);
        let Some(on_line) = on_line else { return };
        while let Some(length) = self.bytes[self.told..].iter().position(|byte| *byte == b'\n') {
            on_line(&String::from_utf8_lossy(&self.bytes[self.told..self.told + length]));
            self.told += length + 1;
        }
    }

    fn finish(&mut self, on_line: &mut Option<OnLine<'_>>) -> String {
        if let Some(on_line) = on_line
            && self.told < self.bytes.len()
        {
            on_line(&String::from_utf8_lossy(&self.bytes[self.told..]));
            self.told = self.bytes.len();
        }
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[derive(Default)]
struct Gathered {
    stdout: Stream,
    stderr: Stream,
}

impl Gathered {
    /// Gathers output until the child has ended (`Some`) or the deadline is over (`None`).
    fn until_end(
        &mut self,
        pieces: &Receiver<Piece>,
        child: &mut Child,
        end: Instant,
        on_line: &mut Option<OnLine<'_>>,
    ) -> io::Result<Option<ExitStatus>> {
        let mut exited: Option<(ExitStatus, Instant)> = None;
        let mut open = true;
        loop {
            let now = Instant::now();
            if exited.is_none() {
                exited = child.try_wait()?.map(|status| (status, now));
            }
            match exited {
                Some((status, _)) if !open => return Ok(Some(status)),
                Some((status, since)) if now >= since + AFTERMATH => return Ok(Some(status)),
                None if now >= end => return Ok(None),
                _ => {}
            }
            // Output that closes wakes this at once; a child that closed its output first is looked at again soon.
            let patience = Duration::from_millis(if open { 50 } else { 5 });
            match pieces.recv_timeout(patience) {
                Ok(Piece::Out(bytes)) => self.stdout.add(&bytes, on_line),
                Ok(Piece::Err(bytes)) => self.stderr.add(&bytes, on_line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if open => open = false,
                Err(RecvTimeoutError::Disconnected) => crate::wait::pause(patience),
            }
        }
    }
}

fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Without what container engines print on machines that run no syslog, which says nothing about the call.
fn without_noise(text: &str) -> String {
    const NOISE: [&str; 2] =
        ["failed to connect to syslog", "Failed to add conmon to cgroupfs sandbox cgroup"];
    if !NOISE.iter().any(|noise| text.contains(noise)) {
        return text.to_owned();
    }
    let mut kept = String::new();
    for line in text.split_inclusive('\n').filter(|line| !NOISE.iter().any(|noise| line.contains(noise))) {
        kept.push_str(line);
    }
    kept
}

/// The end of a text, for error messages.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn sh(script: &str, deadline: Duration) -> Call<'_> {
        Call::new("sh", deadline).args(["-c", script])
    }

    #[test]
    fn a_program_answers_with_its_code_and_both_its_outputs() {
        let output = sh("echo out; echo err >&2; exit 7", LONG).answer().unwrap();
        assert_eq!(output, Output { code: 7, stdout: "out\n".to_owned(), stderr: "err\n".to_owned() });
    }

    #[test]
    fn a_failure_names_the_command_the_code_and_what_was_said() {
        let error = sh("echo 'no such thing' >&2; exit 3", LONG).run().unwrap_err().to_string();
        assert!(error.contains("`sh -c 'echo "), "{error}");
        assert!(error.contains("exit code 3: no such thing"), "{error}");
    }

    #[test]
    fn a_program_that_hangs_is_ended_at_the_deadline_and_named() {
        let begun = Instant::now();
        let error =
            sh("echo started; exec sleep 600", Duration::from_millis(300)).run().unwrap_err().to_string();
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert!(error.contains("did not finish within 0.3 s: started"), "{error}");
    }

    #[test]
    fn a_descendant_that_holds_the_output_open_does_not_hold_up_the_answer() {
        let begun = Instant::now();
        let output = sh("sleep 30 & echo $!", LONG).answer().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10));
        Call::new("kill", LONG).args([output.text()]).run().unwrap();
    }

    #[test]
    fn input_reaches_the_program_and_lines_come_as_they_are_printed() {
        let mut lines = Vec::new();
        let mut on_line = |line: &str| lines.push(line.to_owned());
        let output = sh("cat; printf end", LONG).input("one\ntwo\n").on_line(&mut on_line).run().unwrap();
        assert_eq!(output.stdout, "one\ntwo\nend");
        assert_eq!(lines, ["one", "two", "end"]);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Call::new("no-such-program", LONG).args(["x"]).run().unwrap_err().to_string();
        assert!(error.contains("cannot run `no-such-program x`"), "{error}");
    }

    #[test]
    fn a_program_that_takes_no_input_does_not_hang_the_caller() {
        let output = sh("exit 0", LONG).input(vec![b'x'; 1 << 22]).answer().unwrap();
        assert_eq!(output.code, 0);
    }
}
