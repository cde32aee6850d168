//! A git child that somebody else ended: the system, where memory is short, or a person. That says nothing of what the child
//! was given, and the same command may do better later.

use std::error::Error;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::Signal;

/// Signals that come from outside, and what they are called. One that passes a limit of ours or finds a fault in itself
/// ends by others.
const FROM_OUTSIDE: [(Signal, &str); 5] = [
    (Signal::HUP, "SIGHUP"),
    (Signal::INT, "SIGINT"),
    (Signal::KILL, "SIGKILL"),
    (Signal::QUIT, "SIGQUIT"),
    (Signal::TERM, "SIGTERM"),
];

/// The signal that ended a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended(Signal, &'static str);

impl Ended {
    pub(super) fn of(status: ExitStatus) -> Option<Self> {
        let number = status.signal()?;
        let found = FROM_OUTSIDE.iter().find(|(signal, _)| signal.as_raw() == number);
        found.map(|(signal, name)| Self(*signal, name))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "signal {} ({})", self.0.as_raw(), self.1)
    }
}

impl Error for Ended {}

/// Whether something failed because a git child was ended by somebody else.
pub fn was_ended(error: &(dyn Error + 'static)) -> bool {
    error.is::<Ended>() || error.source().is_some_and(was_ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::FetchError;
    use crate::git::GitError;
    use crate::import::ImportError;
    use crate::pack::PackError;
    use crate::pins::PinError;
    use crate::push::PushError;
    use crate::repository::RepositoryError;
    use crate::session::SessionError;

    #[test]
    fn a_fault_of_its_own_or_a_limit_is_no_end_from_outside() {
        let of = |raw| Ended::of(ExitStatus::from_raw(raw));
        assert_eq!(of(9).unwrap().to_string(), "signal 9 (SIGKILL)");
        for signal in [Signal::SEGV, Signal::ABORT, Signal::XCPU, Signal::XFSZ] {
            assert_eq!(of(signal.as_raw()), None);
        }
        assert_eq!(of(9 << 8), None, "an exit code");
    }

    #[test]
    fn it_is_found_below_whatever_failed_for_it() {
        let killed = || {
            let source = Ended(Signal::KILL, "SIGKILL");
            let command = "index-pack";
            GitError::Ended { command, source }
        };
        let among = ImportError::Among {
            ids: Vec::new(),
            source: Box::new(ImportError::Pins(PinError::Git(killed()))),
        };
        let errors: [SessionError; 4] = [
            FetchError::Import(among).into(),
            PushError::Pack(PackError::Git(killed())).into(),
            PushError::Repository(RepositoryError::Git(killed())).into(),
            RepositoryError::Git(killed()).into(),
        ];
        assert!(errors.iter().all(|error| was_ended(error)));
        let refused = ImportError::Refused {
            message: "no".to_owned(),
        };
        assert!(!was_ended(&refused));
    }
}
