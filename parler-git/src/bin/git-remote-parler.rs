//! The program that git starts for `parler::` remotes.

fn main() -> std::process::ExitCode {
    parler_git::run()
}
