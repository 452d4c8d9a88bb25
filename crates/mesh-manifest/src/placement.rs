//! On which nodes a module belongs, as its author says it. Which nodes that are is inventory's to decide.

use std::{borrow::Cow, collections::BTreeSet, num::NonZeroU32};

use mesh_ids::NodeName;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Where a module belongs. In TOML exactly one of `nodes = ["a", "b"]`, `count = 2` and `every_node = true`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Table", into = "Table")]
pub enum Placement {
    /// On these nodes.
    Nodes(BTreeSet<NodeName>),
    /// On so many nodes, the mesh chooses which.
    Count(NonZeroU32),
    /// On every node, also on those that join later.
    EveryNode,
}

/// The table as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<NodeName>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    every_node: Option<bool>,
}

impl TryFrom<Table> for Placement {
    type Error = String;

    fn try_from(table: Table) -> Result<Self, String> {
        match table {
            Table { nodes: Some(nodes), count: None, every_node: None } => {
                let named = nodes.len();
                let nodes: BTreeSet<_> = nodes.into_iter().collect();
                if nodes.len() < named {
                    return Err("a node is named twice".to_owned());
                }
                Ok(Self::Nodes(nodes))
            }
            Table { nodes: None, count: Some(count), every_node: None } => Ok(Self::Count(count)),
            Table { nodes: None, count: None, every_node: Some(true) } => Ok(Self::EveryNode),
            _ => {
                Err("expected exactly one of nodes = [\"NODE\", …], count = N, every_node = true".to_owned())
            }
        }
    }
}

impl From<Placement> for Table {
    fn from(placement: Placement) -> Self {
        let none = Self { nodes: None, count: None, every_node: None };
        match placement {
            Placement::Nodes(nodes) => Self { nodes: Some(nodes.into_iter().collect()), ..none },
            Placement::Count(count) => Self { count: Some(count), ..none },
            Placement::EveryNode => Self { every_node: Some(true), ..none },
        }
    }
}

impl JsonSchema for Placement {
    fn schema_name() -> Cow<'static, str> {
        "Placement".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let node = generator.subschema_for::<NodeName>();
        json_schema!({
            "description": "Where the module belongs: exactly one of the three.",
            "oneOf": [
                {
                    "type": "object", "additionalProperties": false, "required": ["nodes"],
                    "properties": { "nodes": {
                        "description": "On these nodes.",
                        "type": "array", "items": node, "minItems": 1, "uniqueItems": true
                    } }
                },
                {
                    "type": "object", "additionalProperties": false, "required": ["count"],
                    "properties": { "count": {
                        "description": "On so many nodes; the mesh chooses which.",
                        "type": "integer", "minimum": 1, "maximum": u32::MAX
                    } }
                },
                {
                    "type": "object", "additionalProperties": false, "required": ["every_node"],
                    "properties": { "every_node": {
                        "description": "On every node, also on those that join later.",
                        "const": true
                    } }
                }
            ]
        })
    }
}
