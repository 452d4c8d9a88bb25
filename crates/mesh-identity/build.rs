//! Has the crate built anew when a migration is added: the folder is embedded whole, and Cargo watches only sources.

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
