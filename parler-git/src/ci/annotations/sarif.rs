//! SARIF 2.1.0: a run for each review, with its findings in files. GitHub refuses a log with a result that is in none.
//!
//! Source: the standard, and what GitHub's code scanning takes of it.

use parler_protocol::{Finding, ReviewPart, RunUrl};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Value, json};

use super::{Written, called, print_of, rule_of};
use crate::visible_json;

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
/// What an address is not made of, in the segments of a path.
const NOT_IN_PATHS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b':')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

pub(super) fn write(reviews: &[ReviewPart]) -> Result<Written, String> {
    let log = json!({ "$schema": SCHEMA, "version": "2.1.0", "runs": reviews.iter().map(run).collect::<Vec<_>>() });
    let text = visible_json::to_string(&log).map_err(|error| error.to_string())?;
    Ok(Written {
        text: text + "\n",
        left_out: reviews
            .iter()
            .map(|review| review.omitted + (review.findings.len() - placed(review).count()) as u64)
            .sum(),
    })
}

fn placed(review: &ReviewPart) -> impl Iterator<Item = &Finding> {
    review.findings.iter().filter(|finding| finding.path.is_some())
}

fn run(review: &ReviewPart) -> Value {
    let mut rules: Vec<&str> = Vec::new();
    for finding in placed(review) {
        let rule = rule_of(review, finding);
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    let results = placed(review).map(|finding| result(review, finding, &rules));
    let mut driver = json!({
        "name": review.context,
        "rules": rules.iter().map(|rule| json!({ "id": rule })).collect::<Vec<_>>(),
    });
    // A page's address may hold what no address of the standard does.
    let is_plain = |url: &&RunUrl| !url.as_str().contains(['"', '<', '>', '\\', '^', '`', '{', '|', '}']);
    if let Some(url) = review.url.as_ref().filter(is_plain) {
        driver["informationUri"] = json!(url);
    }
    json!({
        "tool": { "driver": driver },
        // Uploads of the same category replace each other.
        "automationDetails": { "id": format!("{}/", review.context.as_str()) },
        "results": results.collect::<Vec<_>>(),
    })
}

fn result(review: &ReviewPart, finding: &Finding, rules: &[&str]) -> Value {
    let rule = rule_of(review, finding);
    let mut result = json!({
        "ruleId": rule,
        "ruleIndex": rules.iter().position(|known| *known == rule),
        "level": called(finding.severity, ["error", "warning", "note"]),
        "message": { "text": finding.text },
        "partialFingerprints": { "parlerFinding/v1": print_of(review, finding) },
    });
    if let Some(path) = &finding.path {
        let uri = utf8_percent_encode(path.as_str(), NOT_IN_PATHS).to_string();
        let mut place = json!({ "artifactLocation": { "uri": uri } });
        if let Some(line) = finding.line {
            place["region"] = json!({ "startLine": line, "endLine": finding.end_line.unwrap_or(line) });
        }
        result["locations"] = json!([{ "physicalLocation": place }]);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOSTILE, reviews};
    use super::*;
    use crate::ci::report::ReportFormat;

    #[test]
    fn it_is_the_standards_form() {
        let text = write(&reviews()).unwrap().text;
        let log: serde_sarif::sarif::Sarif = serde_json::from_str(&text).unwrap();
        let result = &log.runs[0].results.as_ref().unwrap()[0];
        assert_eq!(result.message.text.as_deref(), Some(HOSTILE));
        assert_eq!(result.rule_index, Some(0));
        assert_eq!(log.runs[1].tool.driver.name, "tests / linux");
        assert!(
            !text
                .trim_end()
                .contains(|character: char| character.is_control() || character == '\u{202e}')
        );
    }

    #[test]
    fn what_is_written_is_read_again() {
        let reviews = reviews();
        let text = write(&reviews).unwrap().text;
        let report = ReportFormat::of(text.as_bytes()).read(text.as_bytes()).unwrap();
        let findings: Vec<_> = placed(&reviews[0]).collect();
        assert_eq!((report.findings.len(), findings.len()), (2, 2));
        for (read, written) in report.findings.iter().zip(findings) {
            assert_eq!(read.path.as_deref(), written.path.as_ref().map(|path| path.as_str()));
            assert_eq!((read.line, read.severity), (written.line, written.severity));
            assert_eq!(read.text, written.text.as_str());
        }
    }
}
