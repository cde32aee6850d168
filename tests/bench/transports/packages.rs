//! Programs of others that are measured beside ours, from Debian's packages where they are missing.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Where a program of this name is. Installed from this package where it is missing, by whoever may.
///
/// # Errors
/// Where there is none, in words.
pub(crate) fn program(name: &str, package: &str) -> Result<PathBuf, String> {
    if let Some(found) = find(name) {
        return Ok(found);
    }
    let installed = Command::new("apt-get")
        .args(["install", "-y", "-qq", "--no-install-recommends", package])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    let missing = || format!("no {name}; it is in Debian's package {package}");
    installed.map_err(|error| format!("{}: apt-get: {error}", missing()))?;
    find(name).ok_or_else(missing)
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    directories
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}
