//! Starts the host; everything it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    mesh_host::cli::main()
}
