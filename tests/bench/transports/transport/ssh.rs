//! Git over ssh: a server of this user on loopback with keys of its own, and a new connection for each command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;

use parler_harness::World;

use super::Transport;
use super::file::Served;
use super::smart_http::start;
use crate::arguments::TransportName;
use crate::packages::program;
use crate::port;

/// Where Debian's sshd, started by root, wants an empty directory.
const EMPTY_DIRECTORY: &str = "/run/sshd";

/// As deep as this bash does not read its user's start files for a command that comes over ssh, however slow those are.
const INNER_SHELL: u32 = 5;

/// The server. Ended when dropped.
#[derive(Debug)]
pub(super) struct Ssh<'w> {
    served: Served<'w>,
    directory: PathBuf,
    port: u16,
    server: Child,
}

impl<'w> Ssh<'w> {
    pub(super) fn start(world: &'w World) -> Result<Self, String> {
        let sshd = program("sshd", "openssh-server")?;
        let keygen = program("ssh-keygen", "openssh-client")?;
        let directory = world.directory("ssh");
        let user = world.user().within(&directory);
        for name in ["host", "client"] {
            user.run(&keygen, ["-q", "-t", "ed25519", "-N", "", "-f", name])
                .success();
        }
        // Without it root's server ends at once, and says so.
        let _ = fs::create_dir_all(EMPTY_DIRECTORY);
        let path = std::env::var("PATH").map_err(|error| error.to_string())?;
        let place = |name: &str| directory.join(name).display().to_string();
        let (server, port) = port::serve(|port| {
            let text = format!(
                "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\n\
                 UseDNS no\nStrictModes no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n\
                 SetEnv \"PATH={path}\" \"SHLVL={INNER_SHELL}\"\n",
                place("host"),
                place("client.pub"),
            );
            fs::write(directory.join("sshd_config"), text).unwrap();
            start(&user, &sshd, &["-D", "-e", "-f", &place("sshd_config")])
        })?;
        let host_key = fs::read_to_string(directory.join("host.pub")).map_err(|error| error.to_string())?;
        let known = format!("[127.0.0.1]:{port} {host_key}");
        fs::write(directory.join("known_hosts"), known).map_err(|error| error.to_string())?;
        let ssh = Self {
            served: Served::new(world, "served-over-ssh"),
            directory,
            port,
            server,
        };
        ssh.make("try", None);
        let mut list = user.with("GIT_SSH_COMMAND", ssh.command()).command("git", "ls-remote");
        let listed = list.arg(ssh.url("try")).output().map_err(|error| error.to_string())?;
        match listed.status.success() {
            true => Ok(ssh),
            false => Err(String::from_utf8_lossy(&listed.stderr).trim().replace('\n', " ")),
        }
    }

    fn command(&self) -> String {
        let place = |name: &str| self.directory.join(name).display().to_string();
        format!(
            "ssh -F /dev/null -i {} -o IdentitiesOnly=yes -o BatchMode=yes -o UserKnownHostsFile={}",
            place("client"),
            place("known_hosts")
        )
    }
}

impl<'w> Transport<'w> for Ssh<'w> {
    fn name(&self) -> TransportName {
        TransportName::Ssh
    }

    fn note(&self) -> String {
        "OpenSSH on loopback, Ed25519 keys, a new connection for each command".to_owned()
    }

    fn make(&self, remote: &str, from: Option<&Path>) {
        self.served.make(remote, from);
    }

    fn url(&self, remote: &str) -> String {
        format!("ssh://127.0.0.1:{}{}", self.port, self.served.path(remote).display())
    }

    fn variables(&self) -> Vec<(String, String)> {
        vec![("GIT_SSH_COMMAND".to_owned(), self.command())]
    }
}

impl Drop for Ssh<'_> {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
