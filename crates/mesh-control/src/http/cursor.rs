//! A place in all records at once: where a client continues from. Opaque to clients.

use std::{fmt, str::FromStr};

use mesh_record::RecordPosition;

/// After which entry of each context's record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// In inventory's record.
    pub(super) inventory: RecordPosition,
    /// In identity's record.
    pub(super) identity: RecordPosition,
}

/// The text is not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a cursor of this interface; leave `after` out to begin at the latest")]
pub(super) struct InvalidCursor;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.inventory, self.identity)
    }
}

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let position = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            digits.parse().ok().filter(|_| plain).map(RecordPosition::new).ok_or(InvalidCursor)
        };
        let (inventory, identity) = text.split_once('-').ok_or(InvalidCursor)?;
        Ok(Self { inventory: position(inventory)?, identity: position(identity)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_nothing_else_is_one() {
        let cursor = Cursor { inventory: RecordPosition::new(12), identity: RecordPosition::new(0) };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for bad in ["", "1", "1-", "-1", "a-b", "1-2-3", "+1-2", "99999999999999999999-1"] {
            assert_eq!(bad.parse::<Cursor>(), Err(InvalidCursor), "{bad}");
        }
    }
}
