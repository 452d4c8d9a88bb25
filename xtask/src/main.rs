//! The only automation of the repository.
fn main() {}
