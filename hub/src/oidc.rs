//! CI jobs that show an identity token: whose signatures the operator trusts, and which jobs may do what. Trusts nothing
//! that the operator's file does not name, and fetches nothing from anywhere else.

mod file;
mod identity_token;
mod judgement;
mod key_set;
mod key_source;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use parler_protocol::{AgentId, RoomName, TokenName, TokenScope};

pub use self::file::OidcError;
pub(crate) use self::identity_token::IdentityToken;
pub(crate) use self::judgement::{Refused, judge, key_of, millis};
use self::key_source::KeySource;

/// The issuers that a hub trusts and what it lets their jobs do, from a file. Clones have the same.
#[derive(Clone)]
pub struct OidcTrust {
    path: PathBuf,
    current: Arc<RwLock<Arc<Vec<Issuer>>>>,
}

/// Somebody whose signature says which job a job is.
#[derive(Debug)]
pub(crate) struct Issuer {
    /// `iss`, exactly.
    pub(crate) name: String,
    /// Where its keys are.
    pub(crate) keys: Arc<KeySource>,
    /// `aud`, exactly.
    pub(crate) audience: String,
    /// How long ago a token may have been made.
    pub(crate) max_age: Duration,
    /// In the order of the file: the first that fits decides.
    pub(crate) rules: Vec<Rule>,
}

/// Which jobs may do what.
#[derive(Debug)]
pub(crate) struct Rule {
    /// What their token is called.
    pub(crate) name: TokenName,
    /// The member by whose right they do it.
    pub(crate) owner: AgentId,
    pub(crate) rooms: Vec<RoomName>,
    pub(crate) can: Vec<TokenScope>,
    pub(crate) ttl: Duration,
    /// Each with the values of which it has to be one.
    pub(crate) claims: Vec<(String, Vec<String>)>,
    pub(crate) allow_pull_requests: bool,
    pub(crate) allow_unprotected_refs: bool,
}

impl OidcTrust {
    /// Reads the file.
    pub fn load(path: impl Into<PathBuf>) -> Result<Self, OidcError> {
        let path = path.into();
        let issuers = file::read(&path)?;
        Ok(Self {
            path,
            current: Arc::new(RwLock::new(Arc::new(issuers))),
        })
    }

    /// Reads the file again, and the issuers' keys when they are needed next. After an error all stays as it was.
    pub fn reload(&self) -> Result<(), OidcError> {
        let issuers = Arc::new(file::read(&self.path)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = issuers;
        Ok(())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn issuers(&self) -> Arc<Vec<Issuer>> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for OidcTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OidcTrust {{ {} }}", self.path.display())
    }
}
