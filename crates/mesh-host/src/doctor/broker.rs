//! The way to the broker, in three steps that fail for different reasons: a connection, a server that is the mesh's, an
//! account that is let in. A session of its own, which publishes and consumes nothing, closed at once.

use std::time::Duration;

use mesh_ids::Fingerprint;
use mesh_link::{
    Address, Connection, DialError, DialFailure, LearnedAuthority, OpenError, TlsRefusal, authority_pin,
    learn_authority,
};
use tokio::{net::TcpStream, time::timeout};

use super::{Finding, node::Known};
use crate::link_file::LinkFile;

/// For each address; all are tried at once.
const CONNECT: Duration = Duration::from_secs(5);
/// For all addresses in turn.
const HANDSHAKE: Duration = Duration::from_secs(10);
const LOGIN: Duration = Duration::from_secs(10);

pub(super) async fn examine(known: &Known) -> Vec<Finding> {
    let Ok(Some(link)) = &known.link else { return Vec::new() };
    let reached = futures_util::future::join_all(link.brokers.iter().map(reach)).await;
    let any = reached.iter().any(Result::is_ok);
    let mut findings = vec![connection(&reached)];
    if !any {
        return findings;
    }
    let pin = match authority_pin(&link.authority) {
        Ok(pin) => pin,
        Err(why) => {
            findings.push(Finding::fail(
                "tls",
                format!("{why} in link.json"),
                "put link.json back as it was",
            ));
            return findings;
        }
    };
    let learned = learn_authority(&link.brokers, &link.server_name, &pin, HANDSHAKE).await;
    findings.extend(handshake(&learned, &link.server_name, &pin));
    if learned.is_ok() {
        findings.push(login(link).await);
    }
    findings
}

async fn reach(address: &Address) -> Result<String, String> {
    match timeout(CONNECT, TcpStream::connect((address.host(), address.port()))).await {
        Ok(Ok(_)) => Ok(address.to_string()),
        Ok(Err(error)) => Err(format!("{address}: {error}")),
        Err(_) => Err(format!("{address}: no answer within {} s", CONNECT.as_secs())),
    }
}

fn connection(reached: &[Result<String, String>]) -> Finding {
    let there: Vec<&str> = reached.iter().flatten().map(String::as_str).collect();
    let not: Vec<&str> = reached.iter().filter_map(|it| it.as_ref().err()).map(String::as_str).collect();
    match (there.is_empty(), not.is_empty()) {
        (false, true) => Finding::ok("broker", format!("{} answers", there.join(", "))),
        (false, false) => {
            let found = format!("{} answers; {}", there.join(", "), not.join("; "));
            Finding::ok("broker", found)
        }
        (true, _) => Finding::fail(
            "broker",
            format!("not reached: {}", not.join("; ")),
            "look whether the control node is up, and whether a firewall or route keeps this machine from that port; what \
             runs here runs on meanwhile",
        ),
    }
}

fn handshake(
    learned: &Result<LearnedAuthority, DialError>,
    server_name: &str,
    pin: &Fingerprint,
) -> Vec<Finding> {
    let matches = || Finding::ok("pin", format!("the authority is the mesh's, {pin}"));
    let error = match learned {
        Ok(LearnedAuthority { address, .. }) => {
            return vec![Finding::ok("tls", format!("{address} proves to be {server_name}")), matches()];
        }
        Err(error) => error,
    };
    let clock = "compare this machine's clock with the control node's: 'timedatectl'";
    let stranger = "whoever answers there is not this mesh's broker: look what stands between (proxy, other mesh, reused \
                    address); trust nothing it says";
    match error.foremost() {
        Some(DialFailure::Tls(TlsRefusal::PinMismatch)) => {
            vec![Finding::fail("pin", format!("{error}; expected {pin}"), stranger)]
        }
        Some(DialFailure::Tls(TlsRefusal::Expired | TlsRefusal::NotYetValid)) => {
            vec![Finding::fail("tls", error.to_string(), clock), matches()]
        }
        Some(DialFailure::Tls(TlsRefusal::WrongName(_))) => vec![
            Finding::fail(
                "tls",
                error.to_string(),
                "the broker's certificate is not for its name: issue it anew there",
            ),
            matches(),
        ],
        Some(DialFailure::Tls(TlsRefusal::Handshake(_))) => {
            vec![Finding::fail(
                "tls",
                error.to_string(),
                "something other than the broker listens there, or cuts in",
            )]
        }
        Some(DialFailure::Tls(TlsRefusal::UnknownIssuer)) => {
            vec![Finding::fail("tls", error.to_string(), stranger)]
        }
        _ => vec![Finding::fail(
            "tls",
            error.to_string(),
            "the port takes connections and then says nothing: look at the broker ('podman logs broker' on its node)",
        )],
    }
}

async fn login(link: &LinkFile) -> Finding {
    let endpoint = match link.endpoint() {
        Ok(endpoint) => endpoint,
        Err(why) => return Finding::fail("login", why.to_string(), "put link.json back as it was"),
    };
    let opened = Connection::open(&endpoint, LOGIN).await;
    let outcome = match opened {
        Ok(connection) => {
            connection.close().await;
            Ok(())
        }
        Err(error) => Err(error),
    };
    judge_login(outcome, &link.account)
}

fn judge_login(outcome: Result<(), OpenError>, account: &str) -> Finding {
    match outcome {
        Ok(()) => Finding::ok("login", format!("{account} is let in")),
        Err(error @ OpenError::Refused { .. }) => Finding::fail(
            "login",
            error.to_string(),
            "the mesh may have removed this node: see 'mesh node list'; if so, 'mesh-host leave' here, and invite it again",
        ),
        Err(error) => Finding::fail(
            "login",
            error.to_string(),
            "the broker is up and does not answer: look at it ('podman logs broker' on its node), its memory and its disk",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn one_broker_that_answers_is_enough() {
        let there = || Ok("192.0.2.1:5671".to_owned());
        let away = || Err("192.0.2.2:5671: connection refused".to_owned());
        assert_eq!(connection(&[there(), away()]).level, Level::Ok);
        assert!(connection(&[there(), away()]).found.contains("connection refused"));
        assert_eq!(connection(&[away()]).level, Level::Fail);
        assert_eq!(connection(&[]).level, Level::Fail, "no address at all");
    }

    #[test]
    fn an_account_that_is_refused_is_told_from_a_broker_that_is_silent() {
        let refused = OpenError::Refused { account: "n-a".to_owned(), reason: "ACCESS_REFUSED".to_owned() };
        let refused = judge_login(Err(refused), "n-a");
        assert_eq!(refused.level, Level::Fail);
        assert!(refused.remedy.is_some_and(|remedy| remedy.contains("mesh node list")));
        let address = "192.0.2.1:5671".parse().expect("an address");
        let broken = judge_login(Err(OpenError::Broken { address, reason: "cut".to_owned() }), "n-a");
        assert!(
            broken.level == Level::Fail && broken.remedy.is_some_and(|remedy| !remedy.contains("node list"))
        );
    }
}
