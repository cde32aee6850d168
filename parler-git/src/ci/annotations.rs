//! Reviews in the forms in which CI systems take annotations. Every text in them was written by others, and none of them gets
//! out of its place.

use std::fmt::Write;

use parler_protocol::{Finding, ReviewPart, Severity};

use super::fingerprint;

mod github;
mod gitlab;
mod junit;
mod sarif;

/// The forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnnotationFormat {
    /// Workflow commands of GitHub Actions, one a line.
    Github,
    /// The same as a page: a job summary in Markdown.
    GithubSummary,
    /// GitLab's Code Quality report.
    Gitlab,
    /// JUnit's XML.
    Junit,
    /// SARIF 2.1.0.
    Sarif,
}

/// What was written.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) text: String,
    /// How many findings the form has no room or no place for.
    pub(crate) left_out: u64,
}

impl AnnotationFormat {
    /// Writes reviews in their order.
    ///
    /// # Errors
    /// Why one of the forms takes none of it.
    pub(crate) fn write(self, reviews: &[ReviewPart]) -> Result<Written, String> {
        match self {
            Self::Github => Ok(github::commands(reviews)),
            Self::GithubSummary => Ok(github::summary(reviews)),
            Self::Gitlab => gitlab::write(reviews),
            Self::Junit => junit::write(reviews),
            Self::Sarif => sarif::write(reviews),
        }
    }
}

/// What tells a finding from others, also in another commit: what its reporter said of that, else what it is about without
/// the line it is in.
fn print_of(review: &ReviewPart, finding: &Finding) -> String {
    if let Some(said) = &finding.fingerprint {
        return said.as_str().to_owned();
    }
    let path = finding.path.as_ref().map_or("", |path| path.as_str());
    let rule = finding.rule.as_ref().map_or("", |rule| rule.as_str());
    fingerprint::of(&[review.context.as_str(), path, rule, finding.text.as_str()])
}

/// `src/a.rs:3`, or where no place is known none.
fn place(finding: &Finding) -> Option<String> {
    let mut place = finding.path.as_ref()?.as_str().to_owned();
    if let Some(line) = finding.line {
        let _ = write!(place, ":{line}");
    }
    Some(place)
}

/// What a finding goes under: its rule, else the context of its review.
fn rule_of<'r>(review: &'r ReviewPart, finding: &'r Finding) -> &'r str {
    let rule = finding.rule.as_ref();
    rule.map_or(review.context.as_str(), |rule| rule.as_str())
}

/// How a form calls each severity.
fn called(severity: Severity, [error, warning, note]: [&'static str; 3]) -> &'static str {
    match severity {
        Severity::Error => error,
        Severity::Warning => warning,
        Severity::Note => note,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A text that would like to be more than that wherever it stands.
    pub(super) const HOSTILE: &str = "50% off\r\n::error::mine\n::stop-commands::x\n]]></failure><b>|`\"}]\u{1b}[2J\u{202e} ##[add-mask]x www.evil.example \u{ffff}";

    pub(super) fn review(context: &str, findings: Value) -> ReviewPart {
        serde_json::from_value(json!({
            "commit": "a".repeat(40), "context": context, "status": "failure", "findings": findings,
            "url": "https://ci.example/1", "summary": HOSTILE,
        }))
        .unwrap()
    }

    pub(super) fn reviews() -> Vec<ReviewPart> {
        let findings = json!([
            { "path": "src/a b:c,d.rs", "line": 3, "endLine": 5, "severity": "error", "rule": "R1", "text": HOSTILE, "fingerprint": "f1" },
            { "path": "b.rs", "severity": "warning", "text": "so so" },
            { "severity": "note", "text": "by the way" },
        ]);
        vec![review("lint", findings), review("tests / linux", json!([]))]
    }

    #[test]
    fn a_finding_is_the_same_where_its_line_has_moved() {
        let at = |line: u32| {
            review(
                "lint",
                json!([{ "path": "a", "line": line, "severity": "note", "text": "x" }]),
            )
        };
        let (here, there) = (at(3), at(300));
        let print = |review: &ReviewPart| print_of(review, &review.findings[0]);
        assert_eq!(print(&here), print(&there));
        assert_ne!(print(&here), print_of(&review("other", json!([])), &here.findings[0]));
    }
}
