//! The program `parler-hub`: a hub on a TCP address, and what its keeper does to it.

mod program;

fn main() -> std::process::ExitCode {
    program::run()
}
