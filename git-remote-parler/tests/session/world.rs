//! A hub of our own, and agents that run sessions in repositories of a sandbox.

use std::error::Error;
use std::io::Cursor;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;

use git_remote_parler::address::{Address, HubChoice};
use git_remote_parler::git::Git;
use git_remote_parler::repository::{Repository, RepositoryError};
use git_remote_parler::session::{Connected, Session, SessionError, Surroundings};
use parler_client::{CachedSession, Client, ClientOptions, Deadlines, Identity, SessionCache};
use parler_hub::{Hub, HubOptions, LocalPolicy};
use parler_protocol::{AgentKey, DispatchPart, Oid, RoomName, ServiceName};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::sandbox::{Repo, Sandbox};

const SECRET: &str = "of this test";

pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    hub: Option<JoinHandle<()>>,
    agents: AtomicU8,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::behind(Vec::new())
    }

    /// A world whose hub is also reached at these authorities.
    pub(crate) fn behind(authorities: Vec<String>) -> Self {
        let sandbox = Sandbox::new();
        let mut options = HubOptions::new(sandbox.path("hub"));
        options.authorities = authorities;
        options.local = Some(LocalPolicy {
            secret: SECRET.to_owned(),
        });
        let hub = Hub::open(options).unwrap();
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let hub = std::thread::spawn(move || {
            let until = async {
                let _ = stopped.await;
            };
            runtime.block_on(hub.serve(listener, until)).unwrap();
        });
        Self {
            sandbox,
            address,
            stop: Some(stop),
            hub: Some(hub),
            agents: AtomicU8::new(1),
        }
    }

    /// A new agent of the hub's user.
    pub(crate) fn agent(&self, name: &str) -> Agent {
        let seed = self.agents.fetch_add(1, Ordering::Relaxed);
        let identity = Identity {
            key: Arc::new(AgentKey::from_random([seed; 32])),
            name: name.parse().unwrap(),
            role: None,
        };
        Agent {
            hub: self.address,
            session: None,
            room: "x".to_owned(),
            deadlines: Deadlines::default(),
            identity,
            git: self.sandbox.git_with(&[]),
        }
    }

    /// A repository with one commit on `main`, and a clone of it.
    pub(crate) fn origin_and_clone(&self, clone: &str) -> (Repo<'_>, Repo<'_>) {
        let origin = self.sandbox.init("origin", &[]);
        origin.commit("a", "1\n");
        let clone = self.sandbox.clone(&origin, clone, &[]);
        (origin, clone)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(hub) = self.hub.take() {
            let _ = hub.join();
        }
    }
}

#[derive(Clone)]
pub(crate) struct Agent {
    /// Where this agent finds the hub.
    pub(crate) hub: SocketAddr,
    /// A session that it has already.
    pub(crate) session: Option<CachedSession>,
    /// The room it speaks to.
    pub(crate) room: String,
    /// How long it waits.
    pub(crate) deadlines: Deadlines,
    pub(crate) identity: Identity,
    pub(crate) git: Git,
}

/// What a session wrote.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    /// The blocks of the answer that empty lines end.
    pub(crate) fn blocks(&self) -> Vec<Vec<&str>> {
        let mut blocks = vec![Vec::new()];
        for line in self.stdout.lines() {
            match line {
                "" => blocks.push(Vec::new()),
                line => blocks.last_mut().unwrap().push(line),
            }
        }
        blocks.pop();
        blocks
    }

    /// The id of the bundle that a push made, 12 digits.
    pub(crate) fn bundle(&self) -> &str {
        let line = self
            .stderr
            .lines()
            .find(|line| line.starts_with("parler: bundle "))
            .expect("a bundle was made");
        &line["parler: bundle ".len()..][..12]
    }
}

struct Kept(Option<CachedSession>);

impl SessionCache for Kept {
    fn load(&self) -> Option<CachedSession> {
        self.0.clone()
    }

    fn store(&self, _session: &CachedSession) {}
}

struct Edge<'a> {
    agent: &'a Agent,
    git_dir: Option<PathBuf>,
}

impl Surroundings for Edge<'_> {
    fn repository(&self) -> Result<Option<Repository>, RepositoryError> {
        let Some(git_dir) = &self.git_dir else { return Ok(None) };
        Repository::open(self.agent.git.clone(), git_dir).map(Some)
    }

    fn connect(&self, _hub: &HubChoice) -> Result<Connected, Box<dyn Error + Send + Sync>> {
        Ok(Connected {
            client: self.agent.client(),
            is_local: true,
        })
    }

    fn direct_room(&self, _client: &Client, agent: &str) -> Result<RoomName, Box<dyn Error + Send + Sync>> {
        Err(format!("{agent} cannot be found").into())
    }

    fn dispatch(&self, service: &ServiceName) -> Result<DispatchPart, Box<dyn Error + Send + Sync>> {
        Ok(DispatchPart {
            role: service.to_string(),
            ..DispatchPart::default()
        })
    }
}

impl Agent {
    pub(crate) fn client(&self) -> Client {
        Client::new(ClientOptions {
            address: format!("http://{}", self.hub).parse().unwrap(),
            identity: self.identity.clone(),
            secret: Some(SECRET.to_owned()),
            token: None,
            sessions: Box::new(Kept(self.session.clone())),
            deadlines: self.deadlines,
        })
        .unwrap()
    }

    /// Runs a session in a repository, or outside of any, with these lines from git.
    pub(crate) fn talk(&self, git_dir: Option<&Path>, lines: &str) -> (Said, Result<(), SessionError>) {
        let address = Address::parse(&format!("room/{}", self.room), |_| false).unwrap();
        let edge = Edge {
            agent: self,
            git_dir: git_dir.map(Path::to_owned),
        };
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let result = Session::run(Cursor::new(lines.to_owned()), &mut stdout, &mut stderr, &address, &edge);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            Said {
                stdout: text(stdout),
                stderr: text(stderr),
            },
            result,
        )
    }

    /// Lists and pushes. Gives the status lines.
    pub(crate) fn push(&self, repository: &Repo<'_>, refspecs: &[&str]) -> (Vec<String>, Said) {
        let lines: String = refspecs.iter().map(|refspec| format!("push {refspec}\n")).collect();
        let (said, result) = self.talk(Some(&repository.git_dir()), &format!("list for-push\n{lines}\n\n"));
        result.unwrap_or_else(|error| panic!("{error}\n{}", said.stderr));
        let statuses = said.blocks()[1..].concat().into_iter().map(str::to_owned).collect();
        (statuses, said)
    }

    /// Pushes what must succeed. Gives what was said.
    pub(crate) fn pushes(&self, repository: &Repo<'_>, refspecs: &[&str]) -> Said {
        let (statuses, said) = self.push(repository, refspecs);
        assert!(
            statuses.iter().all(|status| status.starts_with("ok ")),
            "{statuses:?}\n{}",
            said.stderr
        );
        said
    }

    /// What the room shows for fetching.
    pub(crate) fn list(&self, repository: &Repo<'_>) -> Vec<String> {
        let (said, result) = self.talk(Some(&repository.git_dir()), "list\n\n");
        result.unwrap();
        said.blocks().concat().into_iter().map(str::to_owned).collect()
    }

    /// Lists and fetches these refs by name, as git does.
    pub(crate) fn fetch(&self, repository: &Repo<'_>, names: &[&str]) -> (Said, Result<(), SessionError>) {
        let listed = self.list(repository);
        let oid_of = |name: &&str| -> Oid {
            let line = listed.iter().find(|line| line.split(' ').nth(1) == Some(name));
            line.unwrap_or_else(|| panic!("{name} is not among {listed:?}"))[..40]
                .parse()
                .unwrap()
        };
        let lines: String = names
            .iter()
            .map(|name| format!("fetch {} {name}\n", oid_of(name)))
            .collect();
        self.talk(Some(&repository.git_dir()), &format!("list\n{lines}\n\n"))
    }

    /// Fetches what must succeed.
    pub(crate) fn fetches(&self, repository: &Repo<'_>, names: &[&str]) -> Said {
        let (said, result) = self.fetch(repository, names);
        result.unwrap_or_else(|error| panic!("{error}\n{}", said.stderr));
        said
    }
}

/// Whether a repository holds everything that these revisions reach.
pub(crate) fn is_complete(repository: &Repo<'_>, oids: &[Oid]) -> bool {
    let oids: Vec<String> = oids.iter().map(Oid::to_string).collect();
    let args = [
        vec!["rev-list", "--objects", "--quiet"],
        oids.iter().map(String::as_str).collect(),
    ]
    .concat();
    let output = repository
        .sandbox
        .command(&repository.directory, args)
        .output()
        .unwrap();
    output.status.success()
}

/// Refs of a repository below a prefix, with their values.
pub(crate) fn refs(repository: &Repo<'_>, prefix: &str) -> Vec<String> {
    let listed = repository.git(&["for-each-ref", "--format=%(objectname) %(refname)", prefix]);
    listed.lines().map(str::to_owned).collect()
}
