//! The engine's door and the kinds behind it, on a real Podman.
//!
//! Each test raises a Podman service of its own, with its own storage, networks and socket, and takes it down however
//! it ends. Its one image is empty: what runs in the containers are the machine's own programs, mounted into them.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test stops at the first surprise")]

mod bundle;
mod containers;
mod database;
mod limits;
mod podman;
mod probes;
mod replacement;
