//! The hub's OpenAPI document, as tests use it.

use parler_protocol::paths;
use serde_json::Value;

use super::Agent;

/// The document as the hub serves it.
pub(crate) async fn document(agent: &Agent) -> Value {
    agent.get(paths::OPENAPI).await.expect(200).json()
}

/// Every call that takes a token: path and method.
pub(crate) async fn authenticated_calls(agent: &Agent) -> Vec<(String, String)> {
    let document = document(agent).await;
    let mut calls = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            if operation.get("security").is_none() {
                calls.push((path.clone(), method.to_uppercase()));
            }
        }
    }
    calls
}

/// A key that no agent has.
const NOBODY: &str = "UBMGMZTGMZTGMZTGMZTGMZTGMZTGMZTGMZTGMZTGMZTGMZTGMZTGNGPY";

/// A path of the document with something in place of each parameter.
pub(crate) fn filled(path: &str) -> String {
    let segments: Vec<&str> = path.split('/').collect();
    let mut filled = String::new();
    for pair in segments.windows(2) {
        let segment = match pair[0] {
            _ if !pair[1].starts_with('{') => pair[1].to_owned(),
            "blobs" => "a".repeat(64),
            "claims" | "jobs" | "messages" => "1".to_owned(),
            "uploads" => "a".repeat(32),
            "invites" => "a".repeat(12),
            "members" | "requests" => NOBODY.to_owned(),
            _ => "r".to_owned(),
        };
        filled = format!("{filled}/{segment}");
    }
    filled
}
