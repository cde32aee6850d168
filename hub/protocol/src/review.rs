//! What somebody found out about one commit of one repository: a commit's status, and findings in its files. Says what was
//! said; whether it counts, and whether the files are there, is for whoever reads it.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use crate::{Oid, TaskStatus, limits};

mod repository_id;
mod tree_path;
mod words;

pub use repository_id::RepositoryId;
pub use tree_path::TreePath;
pub use words::{Fingerprint, ReviewText, RuleName, RunUrl, StatusContext};

/// How a commit stands, as one job or reader of it has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommitStatus {
    /// Not known yet.
    Pending,
    /// It is good.
    Success,
    /// It is not.
    Failure,
    /// Nobody can tell, because finding out failed.
    Error,
    /// It was looked at, and nothing stands in its way.
    Neutral,
}

impl CommitStatus {
    /// Its word on the wire, and for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Error => "error",
            Self::Neutral => "neutral",
        }
    }

    /// Whether it stands in the way.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Failure | Self::Error)
    }

    /// What became of the task of finding out, and of the handoff that asked for it.
    pub const fn task(self) -> TaskStatus {
        match self {
            Self::Pending => TaskStatus::Working,
            Self::Success | Self::Neutral => TaskStatus::Done,
            Self::Failure | Self::Error => TaskStatus::Failed,
        }
    }
}

/// How much a finding matters; the first the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It has to be mended.
    Error,
    /// It should be.
    Warning,
    /// Good to know.
    Note,
}

impl Severity {
    /// Its word on the wire, and for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The file in the commit's tree; absent: it is in no one place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<TreePath>,
    /// The line, from 1. Only with a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<NonZeroU32>,
    /// The last line of it, not before `line`. Only with that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_line: Option<NonZeroU32>,
    /// How much it matters.
    pub severity: Severity,
    /// The rule that it breaks, as whoever found it calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleName>,
    /// What it is: escape it before it reaches a terminal.
    pub text: ReviewText,
    /// The same for the same finding in another commit, where lines have moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
}

impl Finding {
    /// What is wrong with its place, if anything is.
    fn flaw(&self) -> Option<&'static str> {
        match (&self.path, self.line, self.end_line) {
            (None, Some(_), _) => Some("a finding has a line only with a path"),
            (_, None, Some(_)) => Some("a finding has an endLine only with a line"),
            (_, Some(line), Some(end)) if end < line => Some("a finding ends before it begins"),
            _ => None,
        }
    }
}

/// The status of a commit in one context, and what was found in it. The newest of a repository, commit and context counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewPart {
    /// The commit.
    pub commit: Oid,
    /// What looked at it: `lint`, `tests / linux`.
    pub context: StatusContext,
    /// How it stands.
    pub status: CommitStatus,
    /// The repository; absent: whichever the commit is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<RepositoryId>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<ReviewText>,
    /// Where there is more to see: the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<RunUrl>,
    /// What was found, the worst first.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "findings_within_limits"
    )]
    #[schemars(length(max = limits::MAX_FINDINGS))]
    pub findings: Vec<Finding>,
    /// How many more were found and are not told.
    #[serde(default, skip_serializing_if = "crate::api::is_zero")]
    pub omitted: u64,
    /// For how many seconds it counts ([`Message::until`](crate::Message::until)); absent: without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_secs: Option<NonZeroU32>,
}

/// Objects, not too many, each in a place that can be. serde would take lists of their fields as well, which no other
/// reader expects.
fn findings_within_limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Finding>, D::Error> {
    let values = Vec::<Map<String, Value>>::deserialize(deserializer)?;
    if values.len() > limits::MAX_FINDINGS {
        return Err(de::Error::custom("a review has too many findings"));
    }
    let mut findings = Vec::with_capacity(values.len());
    for value in values {
        let finding = Finding::deserialize(Value::Object(value)).map_err(de::Error::custom)?;
        if let Some(flaw) = finding.flaw() {
            return Err(de::Error::custom(flaw));
        }
        findings.push(finding);
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Part;

    fn review(findings: Value) -> Value {
        json!({
            "kind": "com.parler.review", "commit": "a".repeat(40), "context": "lint", "status": "failure",
            "findings": findings,
        })
    }

    fn is_understood(value: &Value) -> bool {
        let part = Part::from_value(value);
        assert_eq!(part.to_value(), *value, "nothing is lost");
        matches!(part, Part::Review(_))
    }

    #[test]
    fn a_finding_is_in_a_place_that_can_be_or_in_none() {
        let finding = |place: Value| {
            let mut finding = json!({ "severity": "error", "text": "no" });
            let fields = place.as_object().unwrap().clone();
            finding.as_object_mut().unwrap().extend(fields);
            review(json!([finding]))
        };
        for good in [
            json!({}),
            json!({ "path": "a" }),
            json!({ "path": "a", "line": 1 }),
            json!({ "path": "a", "line": 3, "endLine": 3 }),
        ] {
            assert!(is_understood(&finding(good.clone())), "{good}");
        }
        for bad in [
            json!({ "line": 1 }),
            json!({ "path": "a", "line": 0 }),
            json!({ "path": "a", "endLine": 3 }),
            json!({ "path": "a", "line": 3, "endLine": 2 }),
            json!({ "path": "../a" }),
            json!({ "severity": "fatal" }),
            json!({ "text": "" }),
        ] {
            assert!(!is_understood(&finding(bad.clone())), "{bad}");
        }
        assert!(!is_understood(&review(json!([["error", "no"]]))));
    }

    #[test]
    fn a_review_with_too_many_findings_is_not_understood() {
        let finding = json!({ "severity": "note", "text": "x" });
        let many = |count: usize| review(json!(vec![finding.clone(); count]));
        assert!(is_understood(&many(limits::MAX_FINDINGS)));
        assert!(!is_understood(&many(limits::MAX_FINDINGS + 1)));
    }

    #[test]
    fn a_status_is_what_became_of_the_task() {
        for (status, task, bad) in [
            (CommitStatus::Pending, TaskStatus::Working, false),
            (CommitStatus::Success, TaskStatus::Done, false),
            (CommitStatus::Neutral, TaskStatus::Done, false),
            (CommitStatus::Failure, TaskStatus::Failed, true),
            (CommitStatus::Error, TaskStatus::Failed, true),
        ] {
            assert_eq!((status.task(), status.is_bad()), (task, bad));
            assert_eq!(json!(status), json!(status.as_str()));
        }
    }
}
