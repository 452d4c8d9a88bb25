//! Names: of nodes, modules, meshes and resources. Never normalised: a name that needs repair is refused.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Why a text is not the name it was offered as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {what}: {rule}")]
pub struct InvalidName {
    what: &'static str,
    text: String,
    rule: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $rule:literal, $pattern:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::try_from(text.to_owned())
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                let check: fn(&str) -> bool = $check;
                if check(&text) {
                    Ok(Self(text))
                } else {
                    let text = text.chars().take(80).collect();
                    Err(InvalidName { what: $what, text, rule: $rule })
                }
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern, "description": $rule })
            }
        }
    };
}

/// A DNS label (RFC 1123), because nodes and modules become host names.
fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

name! {
    /// The name of a machine in the mesh, e.g. `node-1`. A DNS label.
    NodeName, "node name", "1 to 63 of a-z, 0-9 and '-', neither first nor last a '-'",
    "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", is_label
}

name! {
    /// The name of a module, e.g. `hello`. A DNS label.
    ModuleName, "module name", "1 to 63 of a-z, 0-9 and '-', neither first nor last a '-'",
    "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", is_label
}

name! {
    /// Which version of a module, as its author calls it, e.g. `1.4.0`.
    ModuleVersion, "module version", "1 to 64 of letters, digits, '.', '+', '_' and '-', first a letter or digit",
    "^[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}$",
    |text| {
        (1..=64).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".+_-".contains(&b))
    }
}

name! {
    /// Which mesh: 32 lower-case hexadecimal digits, drawn once by the bootstrap.
    MeshId, "mesh id", "32 lower-case hexadecimal digits", "^[0-9a-f]{32}$",
    |text| text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

name! {
    /// Which resource of a declaration, e.g. `file:/etc/motd` or `container:store`. Unique within its origin.
    ResourceId, "resource id", "1 to 512 bytes without control characters, neither first nor last a space",
    "^[^\\p{Cc}]{1,512}$",
    |text| (1..=512).contains(&text.len()) && !text.chars().any(char::is_control) && text.trim() == text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_node_name_is_a_dns_label() {
        for good in ["a", "node-1", "0", &"x".repeat(63)] {
            assert!(good.parse::<NodeName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "ä", "a b", "a\n", &"x".repeat(64)] {
            assert!(bad.parse::<NodeName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_invalid_name_is_refused_while_reading_json() {
        let error = serde_json::from_str::<NodeName>("\"Node 1\"").map_err(|e| e.to_string());
        assert!(error.is_err_and(|e| e.contains("\"Node 1\" is not a node name")));
    }

    proptest! {
        #[test]
        fn a_resource_id_survives_json(text in "[^\\p{Cc} ][^\\p{Cc}]{0,40}[^\\p{Cc} ]") {
            prop_assume!(text.trim() == text && text.len() <= 512);
            let id: ResourceId = text.parse()?;
            let json = serde_json::to_string(&id)?;
            prop_assert_eq!(serde_json::from_str::<ResourceId>(&json)?, id);
        }
    }
}
