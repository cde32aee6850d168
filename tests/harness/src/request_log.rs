//! What a hub answered, read from the log that it writes on standard error. Knows the log's two forms.

use std::fs;
use std::path::{Path, PathBuf};

/// The log of a hub's answers: one line each, written before the answer is sent.
#[derive(Debug, Clone)]
pub struct RequestLog {
    path: PathBuf,
}

/// How far a log had been written at some time.
#[derive(Debug, Clone, Copy)]
pub struct Mark(usize);

impl RequestLog {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The log of the local hub of this home.
    pub(crate) fn of_local_hub(parler_home: &Path) -> Self {
        Self {
            path: parler_home.join("data/hub/hub.log"),
        }
    }

    /// Now.
    pub fn mark(&self) -> Mark {
        Mark(self.text().len())
    }

    /// The answers since then, as `METHOD ROUTE STATUS`.
    pub fn since(&self, mark: Mark) -> Vec<String> {
        self.text()[mark.0..].lines().filter_map(request_line).collect()
    }

    /// All of it.
    pub fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap_or_default()
    }
}

/// `GET /v1/rooms/{room}/pushes 200` of a log line about an answer, in the log's text or JSON form.
fn request_line(line: &str) -> Option<String> {
    if let Ok(line) = serde_json::from_str::<serde_json::Value>(line) {
        let fields = if line["fields"].is_object() {
            &line["fields"]
        } else {
            &line
        };
        let is_answer = fields["message"] == "request";
        return is_answer.then(|| {
            format!(
                "{} {} {}",
                text(&fields["method"]),
                text(&fields["route"]),
                fields["status"]
            )
        });
    }
    if !line.contains(" request ") {
        return None;
    }
    let field = |name: &str| {
        let (_, rest) = line.split_once(&format!(" {name}="))?;
        Some(rest.split(' ').next().unwrap_or(rest).trim_matches('"').to_owned())
    };
    Some(format!("{} {} {}", field("method")?, field("route")?, field("status")?))
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::request_line;

    #[test]
    fn both_forms_of_the_log_are_read() {
        let text = r#"2026-11-29T19:00:00Z  INFO parler_hub::access_log: request method="GET" route="/v1/rooms/{room}/pushes" status=304 elapsed_us=12"#;
        let json = r#"{"timestamp":"x","level":"INFO","fields":{"message":"request","method":"GET","route":"/v1/rooms/{room}/pushes","status":304}}"#;
        for line in [text, json] {
            assert_eq!(
                request_line(line).as_deref(),
                Some("GET /v1/rooms/{room}/pushes 304"),
                "{line}"
            );
        }
        assert_eq!(request_line("INFO parler_hub: opened data format=1"), None);
    }
}
