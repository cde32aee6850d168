//! What this job can show of who it is: the identity token that its CI system signed, or where the runner gives one. Out of
//! the environment before anything else looks at it, so that no child inherits it; never in an error, an argument or a
//! file of ours.

use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::Path;

use git_remote_parler::repository::parse_bool;
use parler_client::request_identity_token;
use parler_protocol::limits::MAX_IDENTITY_TOKEN_BYTES;

use crate::error::{Error, ErrorKind, Result};

/// Whether the job shows who it is, in place of a token.
const ON: &str = "PARLER_OIDC";
/// The variable that holds an identity token.
const VALUE: &str = "PARLER_OIDC_TOKEN";
/// The variable that names a file that holds one.
const FILE: &str = "PARLER_OIDC_TOKEN_FILE";
/// Whom it is for, where that is not the hub's address.
const AUDIENCE: &str = "PARLER_OIDC_AUDIENCE";
/// Where GitLab puts one that the job's `id_tokens` names so.
const GITLAB: &str = "PARLER_ID_TOKEN";
/// Where GitHub's runners give them.
const RUNNER_ADDRESS: &str = "ACTIONS_ID_TOKEN_REQUEST_URL";
/// And what they give them for.
const RUNNER_BEARER: &str = "ACTIONS_ID_TOKEN_REQUEST_TOKEN";

/// What the variables say. Shown by no `Debug`.
#[derive(Clone, Default)]
pub(crate) struct JobIdentity {
    on: Option<OsString>,
    value: Option<OsString>,
    file: Option<OsString>,
    audience: Option<OsString>,
    gitlab: Option<OsString>,
    runner_address: Option<OsString>,
    runner_bearer: Option<OsString>,
}

impl JobIdentity {
    /// Takes the variables away from the others. An empty one is as good as none. The runner's bearer gives whoever has it an identity
    /// token for anybody, so it goes with them.
    pub(crate) fn take_from(variables: &mut Vec<(OsString, OsString)>) -> Self {
        let mut taken = Self::default();
        variables.retain(|(name, value)| {
            let (place, stays) = match name.to_str() {
                Some(ON) => (&mut taken.on, true),
                Some(AUDIENCE) => (&mut taken.audience, true),
                Some(RUNNER_ADDRESS) => (&mut taken.runner_address, true),
                Some(VALUE) => (&mut taken.value, false),
                Some(FILE) => (&mut taken.file, false),
                Some(GITLAB) => (&mut taken.gitlab, false),
                Some(RUNNER_BEARER) => (&mut taken.runner_bearer, false),
                _ => return true,
            };
            *place = (!value.is_empty()).then(|| value.clone());
            stays
        });
        taken
    }

    /// Has the job show who it is, whatever `PARLER_OIDC` says.
    pub(crate) fn turn_on(&mut self) {
        self.on = Some("true".into());
    }

    /// What nobody else may see of it.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        [&self.value, &self.gitlab, &self.runner_bearer]
            .into_iter()
            .filter_map(|value| value.as_ref()?.to_str())
    }

    /// Whether whom it is for was said before anybody asked.
    pub(crate) fn is_for_one_hub(&self) -> bool {
        [&self.value, &self.file, &self.gitlab, &self.audience]
            .iter()
            .any(|said| said.is_some())
    }

    /// Whether the job shows who it is.
    pub(crate) fn is_on(&self) -> Result<bool> {
        let Some(said) = &self.on else { return Ok(false) };
        let said = said.to_string_lossy();
        parse_bool(Some(&said))
            .ok_or_else(|| Error::usage(format_args!("{ON} is '{said}', which is neither true nor false")))
    }

    /// The identity token, for a hub at this address: the one that was given, else one that the runner gives now.
    pub(crate) fn token(&self, directory: &Path, hub: &str) -> Result<String> {
        let text = match (&self.value, &self.file, &self.gitlab) {
            (Some(_), Some(_), _) => {
                return Err(Error::usage(format_args!("{VALUE} and {FILE} are both set")).then("set one of them"));
            }
            (Some(value), None, _) | (None, None, Some(value)) => value.to_string_lossy().into_owned(),
            (None, Some(file), _) => read_file(&directory.join(file))?,
            (None, None, None) => return self.ask_runner(hub),
        };
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }

    fn ask_runner(&self, hub: &str) -> Result<String> {
        let (Some(address), Some(bearer)) = (&self.runner_address, &self.runner_bearer) else {
            let what = "this job has no identity token to show";
            return Err(Error::new(ErrorKind::NotAuthorised, what).then(
                "on GitHub, permissions: id-token: write; on GitLab, id_tokens: PARLER_ID_TOKEN; elsewhere PARLER_OIDC_TOKEN; or a PARLER_TOKEN, which is not there either",
            ));
        };
        let audience = self.audience.as_ref().map(|audience| audience.to_string_lossy());
        let asked = request_identity_token(
            &address.to_string_lossy(),
            &bearer.to_string_lossy(),
            audience.as_deref().unwrap_or(hub),
        );
        asked.map_err(|error| Error::new(ErrorKind::Unreachable, error))
    }
}

fn read_file(path: &Path) -> Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)
        // One more than a token may have: the hub says that it is too long.
        .and_then(|file| file.take(MAX_IDENTITY_TOKEN_BYTES as u64 + 2).read_to_string(&mut text))
        .map_err(|source| Error::usage(format_args!("{FILE}: cannot read {}: {source}", path.display())))?;
    Ok(text)
}

impl fmt::Debug for JobIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobIdentity(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(of: &[(&str, &str)]) -> (JobIdentity, Vec<(OsString, OsString)>) {
        let mut all = of
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        (JobIdentity::take_from(&mut all), all)
    }

    #[test]
    fn what_a_child_could_show_is_taken_out_of_the_environment() {
        let secrets = [VALUE, FILE, GITLAB, RUNNER_BEARER].map(|name| (name, "secret"));
        let (identity, left) = variables(&[&secrets[..], &[("PATH", "/bin"), (ON, "1")]].concat());
        assert_eq!(left, [("PATH".into(), "/bin".into()), (ON.into(), "1".into())]);
        assert!(identity.is_on().unwrap() && !format!("{identity:?}").contains("secret"));
    }

    #[test]
    fn it_is_shown_where_somebody_said_so() {
        for (said, is_on) in [("", false), ("0", false), ("false", false), ("1", true), ("true", true)] {
            assert_eq!(
                variables(&[(ON, said), (VALUE, "x")]).0.is_on().unwrap(),
                is_on,
                "{said}"
            );
        }
        let error = variables(&[(ON, "maybe")]).0.is_on().unwrap_err();
        assert!(error.line().contains("neither true nor false"), "{error}");
        let (mut identity, _) = variables(&[(VALUE, "x")]);
        identity.turn_on();
        assert!(identity.is_on().unwrap());
    }

    #[test]
    fn the_nearest_token_is_the_one_and_none_is_told_with_what_to_do() {
        let token = |of: &[(&str, &str)]| variables(of).0.token(Path::new("/"), "https://hub.example");
        assert_eq!(token(&[(VALUE, "a\n"), (GITLAB, "b")]).unwrap(), "a");
        assert_eq!(token(&[(GITLAB, "b")]).unwrap(), "b");
        assert!(
            token(&[(VALUE, "a"), (FILE, "f")])
                .unwrap_err()
                .line()
                .contains("both set")
        );
        assert!(token(&[(FILE, "gone")]).unwrap_err().line().contains("/gone"));
        for one in [RUNNER_ADDRESS, RUNNER_BEARER] {
            let error = token(&[(one, "x-secret")]).unwrap_err();
            assert!(
                error.line().contains("id-token: write") && !error.line().contains("x-secret"),
                "{error}"
            );
        }
        // Nobody is asked in the clear.
        let of = [(RUNNER_ADDRESS, "http://192.0.2.1/secret"), (RUNNER_BEARER, "x-secret")];
        let error = token(&of).unwrap_err();
        assert!(
            error.line().contains("no https address") && !error.line().contains("secret"),
            "{error}"
        );
    }
}
