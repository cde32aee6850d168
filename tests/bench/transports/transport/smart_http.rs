//! Git over HTTP as it is usually served: nginx, fcgiwrap and git http-backend, on loopback, without TLS and names.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use parler_harness::{Agent, World};
use rustix::process::{Pid, Signal, kill_process_group};

use super::Transport;
use super::file::Served;
use crate::arguments::TransportName;
use crate::packages::program;
use crate::port;

/// Processes that answer at once.
const WORKERS: &str = "4";

/// Both servers. Ended when dropped.
#[derive(Debug)]
pub(super) struct SmartHttp<'w> {
    served: Served<'w>,
    port: u16,
    processes: Vec<Child>,
}

impl<'w> SmartHttp<'w> {
    pub(super) fn start(world: &'w World) -> Result<Self, String> {
        let nginx = program("nginx", "nginx-light")?;
        let fcgiwrap = program("fcgiwrap", "fcgiwrap")?;
        let directory = world.directory("smart-http");
        let mut server = Self {
            served: Served::new(world, "served-over-http"),
            port: 0,
            processes: Vec::new(),
        };
        let user = world.user().within(&directory);
        let backend = PathBuf::from(user.git("--exec-path").success().word()).join("git-http-backend");
        let socket = directory.join("socket");
        server.processes.push(start(
            &user,
            &fcgiwrap,
            &["-c", WORKERS, "-s", &format!("unix:{}", socket.display())],
        ));
        let configuration = directory.join("nginx.conf");
        let (nginx, port) = port::serve(|port| {
            let text = configured(&directory, port, &socket, &backend, server.served.directory());
            fs::write(&configuration, text).unwrap();
            let (file, prefix) = (configuration.to_str().unwrap(), directory.to_str().unwrap());
            start(&user, &nginx, &["-e", "stderr", "-p", prefix, "-c", file])
        })?;
        server.processes.push(nginx);
        server.port = port;
        Ok(server)
    }
}

impl<'w> Transport<'w> for SmartHttp<'w> {
    fn name(&self) -> TransportName {
        TransportName::Http
    }

    fn note(&self) -> String {
        format!(
            "nginx with one worker, {WORKERS} of fcgiwrap, git http-backend; loopback, no TLS, nobody asked for a name"
        )
    }

    fn make(&self, remote: &str, from: Option<&Path>) {
        self.served.make(remote, from);
    }

    fn url(&self, remote: &str) -> String {
        format!("http://127.0.0.1:{}/{remote}.git", self.port)
    }
}

impl Drop for SmartHttp<'_> {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // With the workers that they have.
            let _ = kill_process_group(Pid::from_child(process), Signal::TERM);
            let _ = process.wait();
        }
    }
}

/// A server in a group of its own, whose words go to a file.
pub(super) fn start(user: &Agent<'_>, program: &Path, arguments: &[&str]) -> Child {
    let log = File::options()
        .create(true)
        .append(true)
        .open(user.directory().join("log"))
        .unwrap();
    let mut command = user.command(program, "");
    command.args(arguments).process_group(0).stdin(Stdio::null());
    command.stdout(log.try_clone().unwrap()).stderr(log);
    command.spawn().unwrap()
}

fn configured(directory: &Path, port: u16, socket: &Path, backend: &Path, root: &Path) -> String {
    // Only root's nginx may choose, and then the repositories are root's.
    let who = Command::new("id").arg("-u").output().unwrap();
    let user = if who.stdout == b"0\n" { "user root;\n" } else { "" };
    let place = |name: &str| directory.join(name).display().to_string();
    let temporary: String = ["client_body", "fastcgi", "proxy", "scgi", "uwsgi"]
        .iter()
        .map(|kind| format!("  {kind}_temp_path {};\n", place(kind)))
        .collect();
    let parameters: String = [
        ("CONTENT_LENGTH", "$content_length"),
        ("CONTENT_TYPE", "$content_type"),
        ("GIT_HTTP_EXPORT_ALL", "1"),
        ("GIT_PROJECT_ROOT", root.to_str().unwrap()),
        ("GIT_PROTOCOL", "$http_git_protocol"),
        ("HTTP_CONTENT_ENCODING", "$http_content_encoding"),
        ("PATH_INFO", "$uri"),
        ("QUERY_STRING", "$query_string"),
        ("REMOTE_USER", "somebody"),
        ("REQUEST_METHOD", "$request_method"),
        ("SCRIPT_FILENAME", backend.to_str().unwrap()),
    ]
    .iter()
    .map(|(name, value)| format!("      fastcgi_param {name} {value};\n"))
    .collect();
    format!(
        "{user}daemon off;\nworker_processes 1;\npid {};\nevents {{ worker_connections 256; }}\n\
         http {{\n  access_log off;\n  client_max_body_size 0;\n  sendfile on;\n  tcp_nopush on;\n{temporary}  \
         server {{\n    listen 127.0.0.1:{port};\n    location / {{\n      fastcgi_pass unix:{};\n      \
         fastcgi_read_timeout 600;\n      fastcgi_request_buffering off;\n{parameters}    }}\n  }}\n}}\n",
        place("pid"),
        socket.display()
    )
}
