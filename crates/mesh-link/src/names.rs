//! What things are called on the broker, and the expressions that say who may touch which. Pure.
//!
//! An expression is anchored and its name escaped: `node-1` must not match `node-10`, nor `a.b` match `axb`.
//! Called by: [`crate::Topology`], and everybody who publishes or consumes.

use mesh_ids::NodeName;

/// The message header that carries a signature over the body.
pub const SIGNATURE_HEADER: &str = "sig";
/// The queue of the reports of all nodes.
pub const REPORT_QUEUE: &str = "control.report";
/// The queue of the heartbeats of all nodes.
pub const ALIVE_QUEUE: &str = "control.alive";
/// The queue of requests to join.
pub const ENROL_QUEUE: &str = "control.enrol";
/// The exchange to which a joining machine publishes.
pub const ENROL_EXCHANGE: &str = "enrol";
/// The routing key of a report.
pub const REPORT_KEY: &str = "report";
/// The routing key of a heartbeat.
pub const ALIVE_KEY: &str = "alive";
/// The routing key of a request to join.
pub const ENROL_KEY: &str = "enrol";

pub(crate) const UP: &str = "up.";
pub(crate) const DOWN: &str = "down.";
pub(crate) const REPLY: &str = "reply.";
pub(crate) const NODE_ACCOUNT: &str = "n-";
pub(crate) const TOKEN_ACCOUNT: &str = "j-";

/// The exchange to which a node publishes.
pub fn up_exchange(node: &NodeName) -> String {
    format!("{UP}{node}")
}

/// The queue from which a node consumes.
pub fn down_queue(node: &NodeName) -> String {
    format!("{DOWN}{node}")
}

/// The account of a node.
pub fn node_account(node: &NodeName) -> String {
    format!("{NODE_ACCOUNT}{node}")
}

/// The node whose account this is.
pub fn node_of_account(account: &str) -> Option<NodeName> {
    account.strip_prefix(NODE_ACCOUNT)?.parse().ok()
}

/// The one-shot account of a join token.
pub fn token_account(token_id: &str) -> String {
    format!("{TOKEN_ACCOUNT}{token_id}")
}

/// The queue in which the machine that holds a token finds the answer.
pub fn reply_queue(token_id: &str) -> String {
    format!("{REPLY}{token_id}")
}

/// The expression that matches nothing.
pub(crate) const NOTHING: &str = "^$";

/// The expression that matches this name and no other.
pub(crate) fn exactly(name: &str) -> String {
    let mut expression = String::from("^");
    for character in name.chars() {
        if !character.is_ascii_alphanumeric() && character.is_ascii() {
            expression.push('\\');
        }
        expression.push(character);
    }
    // Not `$`, which also matches before a newline at the end.
    expression.push_str("\\z");
    expression
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_names_one_thing() {
        assert_eq!(exactly("up.node-1"), r"^up\.node\-1\z");
        assert_eq!(exactly("a+b"), r"^a\+b\z");
    }

    #[test]
    fn an_account_is_a_nodes_only_with_its_prefix() {
        assert_eq!(node_of_account("n-node-1").map(|n| n.to_string()), Some("node-1".to_owned()));
        assert_eq!(node_of_account("j-node-1"), None);
        assert_eq!(node_of_account("n-"), None);
    }
}
