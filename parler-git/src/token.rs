//! The token that a CI system gave this process, if any. Out of the environment before anything else looks at it, so
//! that no child inherits it; never in an error, an argument or a file of ours.

use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::Path;

use parler_protocol::AccessToken;

use crate::error::{Error, Result};

/// The variable that holds a token.
const VALUE: &str = "PARLER_TOKEN";
/// The variable that names a file that holds one.
const FILE: &str = "PARLER_TOKEN_FILE";
/// More is no token.
const MAX_BYTES: u64 = 1024;

/// What the variables say. Shown by no `Debug`.
#[derive(Clone, Default)]
pub(crate) struct TokenVariables {
    value: Option<OsString>,
    file: Option<OsString>,
}

impl TokenVariables {
    /// Takes the variables away from the others. An empty one is as good as none.
    pub(crate) fn take_from(variables: &mut Vec<(OsString, OsString)>) -> Self {
        let mut taken = Self::default();
        variables.retain(|(name, value)| {
            let place = match name.to_str() {
                Some(VALUE) => &mut taken.value,
                Some(FILE) => &mut taken.file,
                _ => return true,
            };
            *place = (!value.is_empty()).then(|| value.clone());
            false
        });
        taken
    }

    /// The token, if there is one. A file may end in a newline.
    pub(crate) fn read(&self, directory: &Path) -> Result<Option<AccessToken>> {
        let (text, from) = match (&self.value, &self.file) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(Error::usage(format_args!("{VALUE} and {FILE} are both set")).then("set one of them"));
            }
            (Some(value), None) => (value.to_string_lossy().into_owned(), VALUE),
            (None, Some(file)) => (read_file(&directory.join(file))?, FILE),
        };
        text.trim_end_matches(['\r', '\n'])
            .parse()
            .map(Some)
            .map_err(|error| Error::usage(format_args!("{from}: {error}")).then("git parler token create prints one"))
    }
}

fn read_file(path: &Path) -> Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text))
        .map_err(|source| Error::usage(format_args!("{FILE}: cannot read {}: {source}", path.display())))?;
    Ok(text)
}

impl fmt::Debug for TokenVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenVariables(..)")
    }
}

#[cfg(test)]
mod tests {
    use parler_protocol::HubId;

    use super::*;

    fn variables(of: &[(&str, &str)]) -> (TokenVariables, Vec<(OsString, OsString)>) {
        let mut all = of
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        (TokenVariables::take_from(&mut all), all)
    }

    fn secret() -> String {
        let name = "deploy".parse().unwrap();
        AccessToken::from_random(name, HubId::from_bytes([1; 16]), [0xcd; 32])
            .expose()
            .to_owned()
    }

    #[test]
    fn a_token_is_taken_out_of_the_environment() {
        let secret = secret();
        let (token, left) = variables(&[("PATH", "/bin"), (VALUE, &secret), (FILE, "")]);
        assert_eq!(left.len(), 1);
        assert!(!format!("{token:?}").contains("cd"));
        let token = token.read(Path::new("/")).unwrap().unwrap();
        assert_eq!(token.expose(), secret);
        assert!(variables(&[(VALUE, "")]).0.read(Path::new("/")).unwrap().is_none());
    }

    #[test]
    fn a_file_may_end_in_a_newline() {
        let directory = tempfile::tempdir().unwrap();
        for end in ["", "\n", "\r\n"] {
            std::fs::write(directory.path().join("token"), format!("{}{end}", secret())).unwrap();
            let (token, _) = variables(&[(FILE, "token")]);
            assert_eq!(token.read(directory.path()).unwrap().unwrap().expose(), secret());
        }
    }

    #[test]
    fn what_is_no_token_is_told_without_being_shown() {
        let secret = secret();
        for bad in [&secret[1..], &format!(" {secret}"), &format!("{secret}cd")] {
            let error = variables(&[(VALUE, bad)]).0.read(Path::new("/")).unwrap_err();
            assert!(
                error.line().starts_with("PARLER_TOKEN: ") && !error.line().contains("cdcd"),
                "{error}"
            );
        }
        let both = variables(&[(VALUE, &secret), (FILE, "x")])
            .0
            .read(Path::new("/"))
            .unwrap_err();
        assert!(both.line().contains("both set"), "{both}");
        let error = variables(&[(FILE, "gone")]).0.read(Path::new("/nowhere")).unwrap_err();
        assert!(error.line().contains("/nowhere/gone"), "{error}");
    }
}
