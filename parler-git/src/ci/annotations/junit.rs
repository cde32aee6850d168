//! JUnit's XML: a suite for each review, a failed test for each finding, and one of the status where nothing is to be mended.

use parler_protocol::{CommitStatus, Finding, ReviewPart, Severity};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::{Written, place, rule_of};
use crate::text;

/// What the whole is called.
const NAME: &str = "parler";

pub(super) fn write(reviews: &[ReviewPart]) -> Result<Written, String> {
    let mut report = Report::new(NAME);
    for review in reviews {
        let mut suite = TestSuite::new(shown(review.context.as_str()));
        suite.add_test_cases(review.findings.iter().map(|finding| test(review, finding)));
        if review.findings.iter().all(|finding| finding.severity == Severity::Note) {
            suite.add_test_case(verdict(review));
        }
        report.add_test_suite(suite);
    }
    Ok(Written {
        text: report.to_string().map_err(|error| error.to_string())?,
        left_out: reviews.iter().map(|review| review.omitted).sum(),
    })
}

fn test(review: &ReviewPart, finding: &Finding) -> TestCase {
    let rule = rule_of(review, finding);
    let name = match place(finding) {
        Some(place) => format!("{rule} at {place}"),
        None => rule.to_owned(),
    };
    // A note stands in nobody's way.
    let mut status = match finding.severity {
        Severity::Note => TestCaseStatus::success(),
        Severity::Error | Severity::Warning => TestCaseStatus::non_success(NonSuccessKind::Failure),
    };
    let said = finding.text.as_str();
    let first = text::one_line(said.lines().next().unwrap_or_default());
    status.set_message(shown(&first));
    status.set_type(finding.severity.as_str());
    status.set_description(shown(said));
    let mut test = TestCase::new(shown(&name), status);
    test.set_classname(shown(review.context.as_str()));
    if let Some(path) = &finding.path {
        test.extra.insert("file".into(), shown(path.as_str()).into());
        if let Some(line) = finding.line {
            test.extra.insert("line".into(), line.to_string().into());
        }
    }
    test
}

/// A review in which nothing is to be mended has one test more: that of its status.
fn verdict(review: &ReviewPart) -> TestCase {
    let mut status = match review.status {
        CommitStatus::Success => TestCaseStatus::success(),
        CommitStatus::Neutral | CommitStatus::Pending => TestCaseStatus::skipped(),
        CommitStatus::Failure => TestCaseStatus::non_success(NonSuccessKind::Failure),
        CommitStatus::Error => TestCaseStatus::non_success(NonSuccessKind::Error),
    };
    if let Some(summary) = &review.summary {
        status.set_description(shown(summary.as_str()));
    }
    let mut test = TestCase::new(review.status.as_str(), status);
    test.set_classname(shown(review.context.as_str()));
    test
}

/// A text without hidden characters, which XML does not have at all; a line of it is not a line of the file, as anywhere.
fn shown(said: &str) -> String {
    // What XML does not have and Unicode calls no character.
    text::continued(said).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::super::tests::reviews;
    use super::*;
    use crate::ci::report::ReportFormat;

    #[test]
    fn it_is_read_by_others_and_by_us() {
        let text = write(&reviews()).unwrap().text;
        let report = Report::deserialize_from_str(&text).unwrap();
        assert_eq!((report.tests, report.failures), (4, 3));
        assert_eq!(report.test_suites[0].name.as_str(), "lint");
        let read = ReportFormat::of(text.as_bytes()).read(text.as_bytes()).unwrap();
        assert_eq!(read.summary.as_deref(), Some("4 tests, 3 failed"));
        assert_eq!(read.findings[0].path.as_deref(), Some("src/a b:c,d.rs"));
        assert_eq!(read.findings[0].line.map(std::num::NonZeroU32::get), Some(3));
        assert!(
            read.findings[0]
                .text
                .contains("]]></failure><b>|`\"}]\\u{1b}[2J\\u{202e}"),
            "{read:?}"
        );
    }
}
