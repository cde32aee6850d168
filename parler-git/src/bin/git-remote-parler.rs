//! The program that git starts for `parler::` remotes, and nothing besides.

fn main() -> std::process::ExitCode {
    parler_git::run_helper()
}
