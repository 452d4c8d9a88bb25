//! What `mesh-lab` prints: a table for people, JSON for programs. No colours, so it reads the same in a log.

use comfy_table::{Table, presets};
use mesh_lab::NodeState;
use mesh_lab::raise::ListedNode;

/// The nodes as a table; with what the control plane says of them, where it was asked.
pub(crate) fn table(states: &[NodeState], listed: &[ListedNode]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["NODE", "ADDRESS", "MACHINE", "SYSTEMD", "HOST", "NETWORK"];
    if !listed.is_empty() {
        header.push("MESH");
    }
    table.set_header(header);
    for state in states {
        let address = state.present_address.unwrap_or(state.address).to_string();
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let mut row = vec![
            state.name.clone(),
            address,
            state.container.clone(),
            or_dash(&state.systemd),
            or_dash(&state.host),
            if state.cut { "cut" } else { "plugged in" }.to_owned(),
        ];
        row.extend(listed.iter().filter(|node| node.name == state.name).map(|node| node.state.clone()));
        table.add_row(row);
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// The nodes as JSON.
pub(crate) fn json(states: &[NodeState]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(states)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(cut: bool) -> NodeState {
        NodeState {
            name: "node-2".to_owned(),
            address: [10, 231, 0, 12].into(),
            present_address: (!cut).then_some([10, 231, 0, 99].into()),
            container: "running".to_owned(),
            systemd: Some("running".to_owned()),
            host: None,
            cut,
        }
    }

    #[test]
    fn a_node_that_is_cut_off_is_shown_so_with_the_address_it_had() {
        let text = table(&[state(true)], &[]);
        assert!(text.contains("10.231.0.12"), "{text}");
        assert!(text.ends_with("cut"), "{text}");
        let listed = ListedNode { name: "node-2".to_owned(), state: "quiet".to_owned() };
        let text = table(&[state(false)], &[listed]);
        assert!(text.contains("10.231.0.99") && text.ends_with("quiet"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn programs_get_an_array_with_every_field() {
        let text = json(&[state(true)]).unwrap_or_default();
        for field in ["name", "address", "present_address", "container", "systemd", "host", "cut"] {
            assert!(text.contains(&format!("\"{field}\":")), "{field} in {text}");
        }
    }
}
