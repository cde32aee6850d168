//! GitLab's Code Quality report: findings in files. One in no place has none in it.
//!
//! Source: GitLab's "Implement a custom tool" for Code Quality: the fields, the severities, and that fingerprints differ.

use std::collections::HashMap;

use parler_protocol::ReviewPart;
use serde_json::json;

use super::{Written, called, print_of, rule_of};
use crate::visible_json;

pub(super) fn write(reviews: &[ReviewPart]) -> Result<Written, String> {
    let mut left_out = 0;
    let mut seen: HashMap<String, u64> = HashMap::new();
    let mut issues = Vec::new();
    for review in reviews {
        for finding in &review.findings {
            let Some(path) = &finding.path else {
                left_out += 1;
                continue;
            };
            let print = print_of(review, finding);
            let before = seen.entry(print.clone()).or_default();
            *before += 1;
            let print = match *before {
                1 => print,
                again => format!("{print}:{again}:{}", path.as_str()),
            };
            let line = finding.line.map_or(1, std::num::NonZeroU32::get);
            let mut lines = json!({ "begin": line });
            if let Some(end) = finding.end_line {
                lines["end"] = json!(end);
            }
            issues.push(json!({
                "description": finding.text,
                "check_name": rule_of(review, finding),
                "fingerprint": print,
                "severity": called(finding.severity, ["critical", "minor", "info"]),
                "location": { "path": path, "lines": lines },
            }));
        }
        left_out += review.omitted;
    }
    let text = visible_json::to_string(&issues).map_err(|error| error.to_string())?;
    Ok(Written {
        text: text + "\n",
        left_out,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::tests::{HOSTILE, review, reviews};
    use super::*;

    #[test]
    fn each_finding_in_a_file_is_an_issue() {
        let written = write(&reviews()).unwrap();
        let issues: Value = serde_json::from_str(&written.text).unwrap();
        assert_eq!(written.left_out, 1);
        assert_eq!(
            issues[0],
            json!({
                "description": HOSTILE, "check_name": "R1", "fingerprint": "f1", "severity": "critical",
                "location": { "path": "src/a b:c,d.rs", "lines": { "begin": 3, "end": 5 } },
            })
        );
        assert_eq!(issues[1]["check_name"], "lint");
        assert_eq!(issues[1]["location"]["lines"]["begin"], 1);
        assert_eq!(issues[2], Value::Null);
    }

    #[test]
    fn equal_findings_have_fingerprints_of_their_own() {
        let same = json!({ "path": "a", "severity": "note", "text": "x" });
        let written = write(&[review("lint", json!([same, same]))]).unwrap();
        let issues: Vec<Value> = serde_json::from_str(&written.text).unwrap();
        assert_ne!(issues[0]["fingerprint"], issues[1]["fingerprint"]);
    }
}
