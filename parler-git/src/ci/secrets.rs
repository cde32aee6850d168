//! The secrets of this process's surroundings, so that none of them is posted: the token, and every variable that is called as
//! secrets are. Finds values as they are, not what was made of them. Shown by no `Debug`.

use std::borrow::Cow;
use std::fmt;

use crate::environment::Environment;

/// What stands in the place of a secret.
const MASK: &str = "***";
/// Shorter values are not replaced: they would be found in many words.
const LEAST_BYTES: usize = 8;
/// What the name of a variable holds that is a secret.
const WORDS: &[&str] = &[
    "ACCESS_KEY",
    "APIKEY",
    "API_KEY",
    "AUTH_CONFIG",
    "CREDENTIAL",
    "DATABASE_URL",
    "DEPLOY_KEY",
    "ENCRYPTION_KEY",
    "GPG_KEY",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PRIVATE_KEY",
    "SECRET",
    "SIGNING_KEY",
    "SSH_KEY",
    "TOKEN",
    "_PASS",
    "_PWD",
];

/// Values that nobody else may see.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    /// The longest first: one may hold another.
    values: Vec<String>,
}

impl Secrets {
    /// The secrets of these surroundings, and the token that was taken out of them.
    pub(crate) fn of(environment: &Environment, token: Option<&str>) -> Self {
        let is_secret = |name: &str| {
            let name = name.to_ascii_uppercase();
            WORDS.iter().any(|word| name.contains(word))
        };
        let named = environment.variables.iter().filter_map(|(name, value)| {
            let (name, value) = (name.to_str()?, value.to_str()?);
            is_secret(name).then_some(value)
        });
        // Of a key in several lines each is one.
        let taken = environment.identity.secrets();
        let lines = named.chain(token).chain(taken).flat_map(str::lines).map(str::trim);
        let mut values: Vec<String> = lines
            .filter(|line| line.len() >= LEAST_BYTES)
            .map(str::to_owned)
            .collect();
        values.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        values.dedup();
        Self { values }
    }

    /// A text without them.
    pub(crate) fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut masked = Cow::Borrowed(text);
        for value in &self.values {
            if masked.contains(value.as_str()) {
                masked = Cow::Owned(masked.replace(value.as_str(), MASK));
            }
        }
        masked
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_told_and_nothing_else_is_lost() {
        let environment = Environment::for_test(&[
            ("DEPLOY_TOKEN", "abcdefgh"),
            ("npm_password", "abcdefghij"),
            ("SHORT_SECRET", "short"),
            ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "bearer-of-the-runner"),
            ("SSH_PRIVATE_KEY", "-----BEGIN-----\n  line-of-a-key\n-----END-----\n"),
            ("HOME", "/home/ada-lovelace"),
        ]);
        let secrets = Secrets::of(&environment, Some("parler_ci_x"));
        for (text, masked) in [
            ("it was abcdefghij", "it was ***"),
            ("it was abcdefgh!", "it was ***!"),
            ("x bearer-of-the-runner", "x ***"),
            ("a line-of-a-key b", "a *** b"),
            ("Authorization: parler_ci_x", "Authorization: ***"),
            ("short, in /home/ada-lovelace", "short, in /home/ada-lovelace"),
        ] {
            assert_eq!(secrets.mask(text), masked);
        }
        assert!(!format!("{secrets:?}").contains("abc"));
    }
}
