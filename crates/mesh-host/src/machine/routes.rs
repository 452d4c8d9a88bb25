//! Hears from the kernel that links, addresses or routes changed. Does not read what changed, and changes nothing.
//!
//! Called by: the run loop, which tells the uplink, so that a wait for an unreachable broker ends at once.

use std::io;
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use tokio::io::unix::AsyncFd;

use crate::failure::{During as _, Failure};

/// RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE of rtnetlink(7).
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;
/// One change is many messages, and a route is of use a moment after it appeared.
const SETTLE: Duration = Duration::from_millis(200);

/// The kernel's news of the network.
#[derive(Debug)]
pub struct RouteWatch(AsyncFd<std::os::fd::OwnedFd>);

impl RouteWatch {
    /// Starts to listen.
    #[expect(
        deprecated,
        reason = "unsound only for types whose descriptor may change; an OwnedFd's does not, and the successor is unsafe"
    )]
    pub fn open() -> Result<Self, Failure> {
        let open = || -> io::Result<Self> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            // No protocol is protocol 0, which is NETLINK_ROUTE.
            let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
            bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
            Ok(Self(AsyncFd::new(socket)?))
        };
        open().during("listen for changed routes")
    }

    /// Waits until something changed, and until it settled. Cancel-safe.
    pub async fn changed(&mut self) -> Result<(), Failure> {
        self.drain().await.during("hear of changed routes")?;
        tokio::time::sleep(SETTLE).await;
        Ok(())
    }

    async fn drain(&mut self) -> io::Result<()> {
        let mut news = [0_u8; 8192];
        let mut heard = false;
        loop {
            let mut ready = self.0.readable_mut().await?;
            loop {
                match recv(ready.get_inner(), &mut news, RecvFlags::empty()) {
                    // NOBUFS: more happened than the kernel keeps for us. That something did is all we ask.
                    Ok(_) | Err(rustix::io::Errno::NOBUFS) => heard = true,
                    Err(rustix::io::Errno::AGAIN) => break,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            ready.clear_ready();
            if heard {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[tokio::test]
    async fn a_machine_where_nothing_changes_is_not_heard_from() {
        let mut watch = RouteWatch::open().unwrap();
        // Other tests' containers may change routes while this runs; hearing of them must not fail either.
        let heard = tokio::time::timeout(Duration::from_millis(50), watch.changed()).await;
        assert!(heard.is_err() || heard.unwrap().is_ok());
    }
}
