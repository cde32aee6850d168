//! `core.sharedRepository`: which rights git gives to others on what it writes into a repository.

use super::{Repository, RepositoryError, parse_bool};

/// The rights that a shared repository grants beside those that the umask leaves. The default grants none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SharedMode {
    /// The umask decides.
    #[default]
    Umask,
    /// These are added.
    Added(u32),
    /// These, and no others.
    Exactly(u32),
}

impl SharedMode {
    /// The mode of a file that was made with this one, if it has to be another. As git's `calc_shared_perm`.
    pub(crate) fn applied_to(self, mode: u32) -> Option<u32> {
        let writable = |bits: u32| if mode & 0o200 == 0 { bits & !0o222 } else { bits };
        let new = match self {
            Self::Umask => mode,
            Self::Added(bits) => mode | writable(bits),
            Self::Exactly(bits) => (mode & !0o777) | writable(bits),
        };
        (new != mode).then_some(new & 0o7777)
    }

    /// As git reads the value: a word, a boolean, or octal digits. None for what git refuses.
    fn parse(value: &str) -> Option<Self> {
        const GROUP: u32 = 0o660;
        const EVERYBODY: u32 = 0o664;
        match value {
            "umask" => return Some(Self::Umask),
            "group" => return Some(Self::Added(GROUP)),
            "all" | "world" | "everybody" => return Some(Self::Added(EVERYBODY)),
            _ => {}
        }
        match u32::from_str_radix(value, 8) {
            Ok(0) => Some(Self::Umask),
            Ok(1) => Some(Self::Added(GROUP)),
            Ok(2) => Some(Self::Added(EVERYBODY)),
            Ok(bits) => (bits & 0o600 == 0o600).then_some(Self::Exactly(bits & 0o666)),
            Err(_) => match parse_bool(Some(value))? {
                true => Some(Self::Added(GROUP)),
                false => Some(Self::Umask),
            },
        }
    }
}

impl Repository {
    /// Which rights files of the repository are to have. What git does not understand counts as not set.
    pub(crate) fn shared_mode(&self) -> Result<SharedMode, RepositoryError> {
        let value = self.config_string("core.sharedRepository")?;
        Ok(value.and_then(|value| SharedMode::parse(&value)).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_gits() {
        for (value, of_644, of_444) in [
            ("umask", 0o644, 0o444),
            ("false", 0o644, 0o444),
            ("0", 0o644, 0o444),
            ("group", 0o664, 0o444),
            ("true", 0o664, 0o444),
            ("1", 0o664, 0o444),
            ("everybody", 0o664, 0o444),
            ("2", 0o664, 0o444),
            ("0640", 0o640, 0o440),
            ("0600", 0o600, 0o400),
        ] {
            let mode = SharedMode::parse(value).unwrap();
            assert_eq!(mode.applied_to(0o644).unwrap_or(0o644), of_644, "{value}");
            assert_eq!(mode.applied_to(0o444).unwrap_or(0o444), of_444, "{value}");
        }
        assert_eq!(SharedMode::parse("0066"), None);
        assert_eq!(SharedMode::parse("friends"), None);
    }
}
