//! Where a server listens: a name or an address, and a port. Never resolves anything by itself.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Why a text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address: HOST:PORT, or [IPV6]:PORT")]
pub struct InvalidAddress(String);

/// `host:port`. An IPv6 address stands in brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// This host, without brackets, and this port.
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port }
    }

    /// The name or the address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let invalid = || InvalidAddress(text.chars().take(300).collect());
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let inner = rest.strip_suffix(']').ok_or_else(invalid)?;
                inner.parse::<std::net::Ipv6Addr>().map_err(|_| invalid())?;
                inner
            }
            None if host.contains(':') => return Err(invalid()),
            None => host,
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
        if host.is_empty() || host.len() > 253 || !host.chars().all(allowed) {
            return Err(invalid());
        }
        match port.parse() {
            Ok(port) if port > 0 => Ok(Self::new(host, port)),
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl TryFrom<String> for Address {
    type Error = InvalidAddress;

    fn try_from(text: String) -> Result<Self, InvalidAddress> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_printed_as_it_was_read() {
        for good in ["broker.mesh.internal:5671", "10.0.0.1:5671", "[fd00::1]:5671"] {
            assert_eq!(good.parse::<Address>().map(|a| a.to_string()), Ok(good.to_owned()));
        }
    }

    #[test]
    fn half_an_address_is_refused() {
        for bad in [
            "",
            "broker",
            ":5671",
            "broker:0",
            "broker:70000",
            "fd00::1:5671",
            "[fd00::1:5671",
            "a b:1",
            "a/b:1",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
