//! `docs/protocol.md` against the program.

use parler_protocol::ErrorCode;
use parler_protocol::paths::{self, template};

use crate::support::TestHub;

const DOCUMENT: &str = include_str!("../../docs/protocol.md");

#[test]
fn every_error_code_is_documented_with_its_status() {
    // | `code` | status | retryable | ... |
    let rows: Vec<Vec<&str>> = DOCUMENT
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(str::trim).skip(1).collect())
        .collect();
    let mut documented = Vec::new();
    for code in ErrorCode::ALL {
        let name = format!("`{code}`", code = code.as_str());
        let row = rows
            .iter()
            .find(|row| row[0] == name)
            .unwrap_or_else(|| panic!("{name} is not documented"));
        let retry = if code.is_retryable() { "yes" } else { "no" };
        assert_eq!((row[1], row[2]), (code.status().to_string().as_str(), retry), "{name}");
        documented.push(code.as_str());
    }
    let of_errors = rows.iter().filter(|row| row[1].parse::<u16>().is_ok());
    for row in of_errors {
        assert!(
            documented.contains(&row[0].trim_matches('`')),
            "{} is documented and unknown",
            row[0]
        );
    }
}

/// Every path with a method that it takes.
pub(crate) const ROUTED: &[(&str, &str)] = &[
    (paths::HEALTH, "GET"),
    (paths::SESSION, "POST"),
    (paths::INVITES, "POST"),
    (paths::JOIN, "POST"),
    (paths::ROOMS, "GET"),
    (paths::ROOMS, "POST"),
    (paths::EVENTS, "GET"),
    (paths::TOKENS, "GET"),
    (paths::TOKENS, "POST"),
    (template::TOKEN_NAMED, "DELETE"),
    (paths::TOKEN, "GET"),
    (template::ROOM, "GET"),
    (template::MEMBERS, "GET"),
    (template::MESSAGES, "GET"),
    (template::MESSAGES, "POST"),
    (template::STREAM, "GET"),
    (template::CURSOR, "PUT"),
    (template::PUSHES, "GET"),
    (template::REFS, "GET"),
    (template::BLOB, "GET"),
    (template::BUNDLES, "GET"),
    (template::UPLOADS, "POST"),
    (template::UPLOAD, "GET"),
    (template::UPLOAD, "PATCH"),
    (template::UPLOAD, "DELETE"),
];

/// Nothing is routed that these tests do not know of.
#[test]
fn the_table_is_the_routers() {
    let router = include_str!("../../hub/src/router.rs");
    let calls: usize = ["get(", "post(", "put(", "delete(", "patch("]
        .iter()
        .map(|method| router.matches(method).count() - router.matches(&format!("_{method}")).count())
        .sum();
    assert_eq!(calls, ROUTED.len());
}

#[tokio::test]
async fn every_path_is_routed_and_documented() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    for (path, method) in ROUTED {
        assert!(
            DOCUMENT.contains(&format!("{method} {path}")),
            "{method} {path} is not documented"
        );
        // A method that no path takes shows whether the path is there.
        let path = path
            .replace("{room}", "r")
            .replace("{id}", &"a".repeat(64))
            .replace("{name}", "n");
        let answer = alice.send("PURGE", &path, |request| request, "").await;
        answer.problem(ErrorCode::MethodNotAllowed);
        assert!(answer.header("allow").contains(method), "{method} {path}");
    }
}
