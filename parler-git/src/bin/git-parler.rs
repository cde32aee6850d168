//! The program `git parler`.

fn main() -> std::process::ExitCode {
    parler_git::run()
}
