//! `docs/protocol.md` and the OpenAPI document against the program.

use std::collections::BTreeSet;

use parler_protocol::{ErrorCode, paths};
use serde_json::Value;

use crate::support::{TestHub, openapi};

const MANUAL: &str = include_str!("../../docs/protocol.md");

#[test]
fn every_error_code_is_documented_with_its_status() {
    // | `code` | status | retryable | ... |
    let rows: Vec<Vec<&str>> = MANUAL
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

/// The calls that the manual tells of: a method and a path between backquotes.
fn calls_of_the_manual() -> BTreeSet<String> {
    let calls = MANUAL.split('`').filter_map(|quoted| {
        let (method, path) = quoted.split_once(' ')?;
        let is_method = ["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method);
        (is_method && path.starts_with('/')).then(|| format!("{method} {path}"))
    });
    calls.collect()
}

#[tokio::test]
async fn router_document_and_manual_have_the_same_calls() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let document = openapi::document(&alice).await;
    let mut calls = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let mut methods: BTreeSet<_> = operations
            .as_object()
            .unwrap()
            .keys()
            .map(|key| key.to_uppercase())
            .collect();
        calls.extend(methods.iter().map(|method| format!("{method} {path}")));
        // A method that no path takes shows which ones this path does.
        let answer = alice.send("TRACE", &openapi::filled(path), |request| request, "").await;
        answer.problem(ErrorCode::MethodNotAllowed);
        if methods.contains("GET") {
            methods.insert("HEAD".to_owned());
        }
        let allowed: BTreeSet<_> = answer.header("allow").split(',').map(str::to_owned).collect();
        assert_eq!(allowed, methods, "{path}");
    }
    assert_eq!(calls, calls_of_the_manual());
}

/// A misspelled parameter is noticed everywhere, and one that comes twice.
#[tokio::test]
async fn undocumented_query_parameters_are_refused() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    alice.create_room("r").await;
    let document = openapi::document(&alice).await;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let mut queries = vec!["undocumented=1".to_owned()];
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().unwrap();
                if parameter["in"] == "query" {
                    queries.push(format!("{name}=0&{name}=0"));
                }
            }
            for query in queries {
                let path = format!("{}?{query}", openapi::filled(path));
                let answer = alice.send(&method.to_uppercase(), &path, |request| request, "").await;
                answer.problem(ErrorCode::BadRequest);
            }
        }
    }
}

#[tokio::test]
async fn the_document_is_there_for_everybody_who_may_ask() {
    let hub = TestHub::start().await;
    let anybody = crate::support::Agent::new(hub.address, hub.id, "x");
    let document: Value = anybody.get(paths::OPENAPI).await.expect(200).json();
    assert_eq!(document["openapi"], "3.1.0");
    let from_page = |request: hyper::http::request::Builder| request.header("origin", "https://evil.example");
    let refused = anybody.send("GET", paths::OPENAPI, from_page, "").await;
    refused.problem(ErrorCode::OriginRefused);
    let codes = &document["components"]["schemas"]["ErrorCode"]["enum"];
    let known: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(*codes, serde_json::json!(known));
}
