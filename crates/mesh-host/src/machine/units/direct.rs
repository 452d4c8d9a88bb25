//! systemd's own socket, for a machine without a message bus.
//!
//! On it systemd signs every message as `org.freedesktop.systemd1`, which is no unique name; the specification wants one
//! there and zbus insists. So what systemd says passes through here, and that one name becomes a unique name of the same
//! length. What is said to systemd passes unchanged.

use std::{io, os::unix::net::UnixStream as StdStream};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

const SOCKET: &str = "/run/systemd/private";
/// The sender field of a message: code 7, a variant of type `s`, 24 bytes long (D-Bus specification, header fields).
const SENDER: &[u8] = b"\x07\x01s\0\x18\0\0\0org.freedesktop.systemd1\0";
const UNIQUE: &[u8] = b"\x07\x01s\0\x18\0\0\0:org.freedesktop.systemd\0";
/// The largest message of the specification.
const LARGEST: u64 = 128 * 1024 * 1024;

/// Whether there is such a socket.
pub(super) fn exists() -> bool {
    std::path::Path::new(SOCKET).exists()
}

/// A connection to systemd. It ends when the other end of the returned stream is dropped.
pub(super) async fn connect() -> io::Result<StdStream> {
    let systemd = UnixStream::connect(SOCKET).await?;
    let (ours, theirs) = StdStream::pair()?;
    ours.set_nonblocking(true)?;
    let (from_us, to_us) = UnixStream::from_std(ours)?.into_split();
    let (from_systemd, to_systemd) = systemd.into_split();
    tokio::spawn(async move {
        // The first that ends takes the other with it.
        let ended = tokio::select! {
            ended = pass_back(from_systemd, to_us) => ended,
            ended = pass_on(from_us, to_systemd) => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "the connection to systemd ended");
        }
    });
    Ok(theirs)
}

async fn pass_on(mut from_us: OwnedReadHalf, mut to_systemd: OwnedWriteHalf) -> io::Result<()> {
    copy(&mut from_us, &mut to_systemd).await.map(|_| ())
}

async fn pass_back(mut from_systemd: OwnedReadHalf, mut to_us: OwnedWriteHalf) -> io::Result<()> {
    let mut message = vec![0; 16];
    // First come the lines of the handshake, none of which begins as a message does: `l` or `B`.
    loop {
        message[0] = from_systemd.read_u8().await?;
        if matches!(message[0], b'l' | b'B') {
            break;
        }
        let mut line = vec![message[0]];
        while line.last() != Some(&b'\n') && line.len() < 4096 {
            line.push(from_systemd.read_u8().await?);
        }
        to_us.write_all(&line).await?;
    }
    let mut read = 1;
    loop {
        from_systemd.read_exact(&mut message[read..]).await?;
        let length = length(&message)?;
        message.resize(length, 0);
        from_systemd.read_exact(&mut message[16..]).await?;
        rename(&mut message);
        to_us.write_all(&message).await?;
        message.truncate(16);
        read = 0;
    }
}

/// The length of the message with this fixed header: the fields padded to eight bytes, then the body.
fn length(header: &[u8]) -> io::Result<usize> {
    let number = |at: usize| {
        let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        u64::from(if header[0] == b'l' { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    };
    let length = 16 + number(12).next_multiple_of(8) + number(4);
    if length > LARGEST {
        return Err(io::Error::other("systemd sent a message larger than D-Bus allows"));
    }
    usize::try_from(length).map_err(io::Error::other)
}

/// Gives the message a sender that is a unique name.
fn rename(message: &mut [u8]) {
    let fields = message.len().min(1024);
    if let Some(at) = message[..fields].windows(SENDER.len()).position(|window| window == SENDER) {
        message[at..at + SENDER.len()].copy_from_slice(UNIQUE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_senders_name_keeps_its_length() {
        assert_eq!(SENDER.len(), UNIQUE.len());
        let mut message = [b"l\x02\x01\x01".as_slice(), &[0; 12], SENDER, b"body"].concat();
        rename(&mut message);
        assert!(message.ends_with(&[UNIQUE, b"body"].concat()));
    }

    #[test]
    fn a_length_counts_padding_and_body() {
        let mut header = [0; 16];
        header[0] = b'l';
        (header[4], header[12]) = (5, 9);
        assert_eq!(length(&header).ok(), Some(16 + 16 + 5));
        header[7] = 0xff;
        assert!(length(&header).is_err());
    }
}
