//! Who may do what: one function, one decision, with its reason. Denied is what is not allowed.
//!
//! Pure: it authenticates nobody (identity does) and is called by the command handlers and queries of the contexts,
//! never by routes, so that no way in is without it.

use std::fmt;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// Nobody known.
    Anonymous,
    /// Holder of the administrator's token.
    Admin {
        /// What the token is called.
        name: String,
    },
    /// The control plane itself, following what was declared.
    System,
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("nobody"),
            Self::Admin { name } => f.write_str(name),
            Self::System => f.write_str("the control plane"),
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Seeing nodes.
    ReadNodes,
    /// Seeing modules and what a change would do.
    ReadModules,
    /// Seeing what happened.
    ReadEvents,
    /// Making a join token.
    InviteNode,
    /// Taking a node out of the mesh.
    RemoveNode,
    /// Beginning a node's history anew.
    RecoverNode,
    /// Bringing a module to what its manifest says.
    ApplyModule,
    /// Taking a module away.
    RemoveModule,
}

impl Action {
    /// Every action.
    pub const ALL: &[Self] = &[
        Self::ReadNodes,
        Self::ReadModules,
        Self::ReadEvents,
        Self::InviteNode,
        Self::RemoveNode,
        Self::RecoverNode,
        Self::ApplyModule,
        Self::RemoveModule,
    ];

    /// What it is called, for a person.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadNodes => "see nodes",
            Self::ReadModules => "see modules",
            Self::ReadEvents => "see events",
            Self::InviteNode => "invite a node",
            Self::RemoveNode => "remove a node",
            Self::RecoverNode => "recover a node",
            Self::ApplyModule => "apply a module",
            Self::RemoveModule => "remove a module",
        }
    }
}

/// A decision against, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{who} may not {what}: {reason}", what = action.as_str())]
pub struct Denied {
    /// Who asked.
    pub who: Principal,
    /// What for.
    pub action: Action,
    /// Why not, and what to do.
    pub reason: &'static str,
}

/// Decides.
pub fn authorise(who: &Principal, action: Action) -> Result<(), Denied> {
    match who {
        Principal::Admin { .. } | Principal::System => Ok(()),
        Principal::Anonymous => {
            let reason = "no token was given, or it is not known; log in first";
            Err(Denied { who: who.clone(), action, reason })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_may_do_nothing_and_the_administrator_everything() {
        let admin = Principal::Admin { name: "admin".to_owned() };
        for action in Action::ALL {
            assert_eq!(authorise(&admin, *action), Ok(()));
            let denied = authorise(&Principal::Anonymous, *action).map_err(|denied| denied.to_string());
            assert_eq!(
                denied,
                Err(format!(
                    "nobody may not {}: no token was given, or it is not known; log in first",
                    action.as_str()
                ))
            );
        }
    }
}
