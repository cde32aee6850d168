//! A way for commits from one repository to another, as a user of git has it: a remote called `origin`, and commands.

mod by_hand;
mod file;
mod room;
mod smart_http;
mod ssh;

use std::path::Path;

use parler_harness::World;

use crate::arguments::TransportName;
use crate::meter::Task;

/// The one branch of every remote.
pub(crate) const BRANCH: &str = "refs/heads/main";
/// What a client knows of it.
pub(crate) const TRACKING: &str = "refs/remotes/origin/main";

/// A transport whose server runs, if it has one.
pub(crate) trait Transport<'w> {
    fn name(&self) -> TransportName;

    /// How it is set up.
    fn note(&self) -> String;

    /// Makes a remote: an empty one, or with the branch of this repository, which has no other.
    fn make(&self, remote: &str, from: Option<&Path>);

    /// The remote's address.
    fn url(&self, remote: &str) -> String;

    /// Besides what every command has.
    fn variables(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Pushes the branch. `base` is what the client knows the remote to have.
    fn push(&self, client: &Path, remote: &str, _base: Option<&str>) -> Task {
        let _ = remote;
        self.git(client, &["push", "--quiet", "origin", &format!("{BRANCH}:{BRANCH}")])
    }

    /// Fetches what is new.
    fn fetch(&self, client: &Path, remote: &str) -> Task {
        let _ = remote;
        self.git(client, &["fetch", "--quiet", "origin"])
    }

    /// Clones into a bare repository.
    fn clone_to(&self, remote: &str, to: &Path) -> Task {
        let to_text = to.to_str().expect("a path of the world");
        let parent = to.parent().expect("a path of the world");
        self.git(parent, &["clone", "--quiet", "--bare", &self.url(remote), to_text])
    }

    /// The process that serves, where its memory is to be told.
    fn server(&self) -> Option<u32> {
        None
    }

    /// A git command of this transport.
    fn git(&self, directory: &Path, arguments: &[&str]) -> Task {
        let words = ["git"].iter().chain(arguments).map(|word| (*word).to_owned());
        Task {
            words: words.collect(),
            directory: directory.to_owned(),
            variables: self.variables(),
        }
    }
}

/// Starts a transport.
///
/// # Errors
/// Where it cannot be had on this machine, in words.
pub(crate) fn start<'w>(name: TransportName, world: &'w World) -> Result<Box<dyn Transport<'w> + 'w>, String> {
    Ok(match name {
        TransportName::Http => Box::new(smart_http::SmartHttp::start(world)?),
        TransportName::File => Box::new(file::File::new(world)),
        TransportName::Ssh => Box::new(ssh::Ssh::start(world)?),
        TransportName::Bundle => Box::new(by_hand::ByHand::new(world)),
        TransportName::Room => Box::new(room::Room::new(world)),
    })
}
