//! Listens to what happens to units, on a connection of its own that is always drained: a round that takes long must
//! not find its answers stuck behind signals that nobody read.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::StreamExt as _;
use tokio::{sync::Notify, time::sleep};
use zbus::{Message, MessageStream, message};

use super::real::Bus;
use crate::failure::{During as _, Failure};

const UNIT_FOLDER: &str = "/org/freedesktop/systemd1/unit/";
/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_secs(2);

/// Says when something happened.
#[derive(Debug, Clone)]
pub(super) struct Watch(Arc<Notify>);

impl Watch {
    pub(super) fn start(names: Arc<Mutex<BTreeSet<String>>>) -> Self {
        let notify = Arc::new(Notify::new());
        let (seen, sleeper) = (Arc::downgrade(&notify), PAUSE);
        tokio::spawn(async move {
            // Until the last one who would hear of it is gone.
            while let Some(notify) = seen.upgrade() {
                if let Err(why) = listen(&notify, &names).await {
                    tracing::debug!(%why, "systemd is not heard");
                }
                // What happened in between is not known.
                notify.notify_one();
                drop(notify);
                sleep(sleeper).await;
            }
        });
        Self(notify)
    }

    pub(super) async fn changed(&self) {
        self.0.notified().await;
    }
}

async fn listen(notify: &Notify, names: &Mutex<BTreeSet<String>>) -> Result<(), Failure> {
    let bus = Bus::connect().await?;
    let mut messages = MessageStream::from(&bus.connection);
    bus.subscribe().await?;
    while let Some(message) = messages.next().await {
        if concerns(&message.during("listen to systemd")?, names) {
            notify.notify_one();
        }
    }
    Ok(())
}

/// Whether a message says that one of these units changed.
fn concerns(message: &Message, names: &Mutex<BTreeSet<String>>) -> bool {
    let header = message.header();
    if header.message_type() != message::Type::Signal {
        return false;
    }
    let path = header.path().map_or("", |path| path.as_str());
    let member = header.member().map_or("", |member| member.as_str());
    match (member, path.strip_prefix(UNIT_FOLDER)) {
        ("PropertiesChanged", Some(escaped)) => {
            names.lock().is_ok_and(|names| names.iter().any(|name| escape(name) == escaped))
        }
        ("UnitFilesChanged", None) => true,
        _ => false,
    }
}

/// A unit's name as the last part of its object path (sd_bus_path_encode(3)).
fn escape(name: &str) -> String {
    use std::fmt::Write as _;
    let mut escaped = String::with_capacity(name.len() + 8);
    for (place, byte) in name.bytes().enumerate() {
        if byte.is_ascii_alphabetic() || (place > 0 && byte.is_ascii_digit()) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "_{byte:02x}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_systemd_does() {
        assert_eq!(escape("dbus.service"), "dbus_2eservice");
        assert_eq!(escape("1-a@b.service"), "_31_2da_40b_2eservice");
    }
}
