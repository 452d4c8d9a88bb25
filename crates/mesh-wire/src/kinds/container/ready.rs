//! How a container is known to be ready, and whether it is asked again while it runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a container is known to be ready: by exactly one of `command`, `http` and `tcp`, in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Run inside the container, as argument vector; ready when it ends with 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Asked by the host over HTTP; ready when the answer's status is from 200 to 399.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpProbe>,
    /// A TCP port of the container; ready when it takes a connection of the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<u16>,
    /// By when it has to be, in seconds after the start.
    pub within_s: u32,
    /// How long one answer may take, in seconds. Where not given: 5 s over HTTP and TCP, and whatever is left of `within_s`
    /// for a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u32>,
}

/// What is asked of a container over HTTP, with the method GET.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpProbe {
    /// The port of the container.
    pub port: u16,
    /// The path, with its query if it has one.
    #[serde(default = "HttpProbe::default_path")]
    pub path: String,
}

/// How often a container that runs is asked what it was asked when it was started, and what is made of its silence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// The time between two questions, in seconds.
    #[serde(default = "Health::default_interval")]
    pub interval_s: u32,
    /// After so many bad answers in a row it is restarted.
    #[serde(default = "Health::default_failures")]
    pub failures: u32,
}

impl HttpProbe {
    fn default_path() -> String {
        "/".to_owned()
    }
}

impl Health {
    const fn default_interval() -> u32 {
        30
    }

    const fn default_failures() -> u32 {
        3
    }

    pub(super) fn check(&self, ready: Option<&Ready>) -> Result<(), String> {
        if ready.is_none() {
            return Err("health asks what `ready` asks, and there is no `ready`".to_owned());
        }
        if self.interval_s == 0 || self.failures == 0 {
            return Err("health: interval_s and failures have to be 1 or more".to_owned());
        }
        Ok(())
    }
}

impl Ready {
    /// By this command inside the container.
    pub fn by_command(command: Vec<String>, within_s: u32) -> Self {
        Self { command, http: None, tcp: None, within_s, timeout_s: None }
    }

    /// What is asked, for people: the program, `GET :8080/ready` or `port 5432`.
    pub fn question(&self) -> String {
        match (&self.http, self.tcp) {
            (Some(http), _) => format!("GET :{}{}", http.port, http.path),
            (None, Some(port)) => format!("port {port}"),
            (None, None) => self.command.first().cloned().unwrap_or_default(),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        match (self.command.is_empty(), &self.http, self.tcp) {
            (false, None, None) | (true, None, Some(1..)) => {}
            (true, None, None) => {
                return Err("ready.command is empty, and neither http nor tcp is given".to_owned());
            }
            (true, Some(http), None) => http.check()?,
            (true, None, Some(0)) => return Err("ready.tcp is not a port from 1 to 65535".to_owned()),
            _ => return Err("ready: expected exactly one of command, http and tcp".to_owned()),
        }
        if self.timeout_s == Some(0) {
            return Err("ready.timeout_s is 0".to_owned());
        }
        Ok(())
    }
}

impl HttpProbe {
    fn check(&self) -> Result<(), String> {
        if self.port == 0 {
            return Err("ready.http.port is not a port from 1 to 65535".to_owned());
        }
        // What a request line can hold as it is (RFC 9112).
        if !self.path.starts_with('/')
            || self.path.len() > 1000
            || !self.path.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err("ready.http.path: expected a path such as /ready, without spaces".to_owned());
        }
        Ok(())
    }
}
