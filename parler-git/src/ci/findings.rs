//! A tool's findings on their way into a message: without secrets, each in a place that the commit has, cut to what the wire
//! takes, the worst first. What does not fit is counted and told, never lost without a word.

use std::num::NonZeroU32;
use std::path::Path;

use git_remote_parler::repository::Place;
use parler_protocol::limits::{MAX_FINDINGS, MAX_REVIEW_TEXT_BYTES, MAX_RULE_BYTES};
use parler_protocol::{Finding, ReviewText, TreePath, is_hidden};

use super::report::Reported;
use super::secrets::Secrets;
use crate::text;

/// Most bytes that the findings of one message have together: it also carries a handoff, a bundle's part and a signature.
const MAX_FINDINGS_BYTES: usize = 640 << 10; // 640 KiB
/// How many of those are named whose place is not there.
const MOST_NAMED: usize = 5;
/// What is said of a finding that says nothing.
const SILENT: &str = "(nothing is said of it)";
/// What stands for the rest of a text.
const ELLIPSIS: &str = "…";

/// What goes into a review.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) findings: Vec<Finding>,
    /// How many are left out.
    pub(crate) omitted: u64,
    /// How many point to what is not there.
    pub(crate) misplaced: u64,
    /// Lines for people.
    pub(crate) remarks: Vec<String>,
}

impl Findings {
    /// Fits what was reported. `place` says what a path is in the commit; paths below `work_dir` are the tree's.
    pub(crate) fn fit(
        reported: Vec<Reported>,
        secrets: &Secrets,
        work_dir: Option<&Path>,
        place: impl Fn(&TreePath) -> Place,
    ) -> Self {
        let mut fitted = Self::default();
        let mut misplaced = Vec::new();
        let mut findings: Vec<Finding> = reported
            .into_iter()
            .map(|found| {
                let (path, line, end_line) = match anchor(&found, secrets, work_dir, &place) {
                    Ok(anchor) => anchor,
                    Err(lost) => {
                        misplaced.push(lost.why);
                        (lost.path, None, None)
                    }
                };
                Finding {
                    path,
                    line,
                    end_line,
                    severity: found.severity,
                    rule: found.rule.as_deref().and_then(|rule| {
                        let visible = one_line(&secrets.mask(rule));
                        cut(visible.trim(), MAX_RULE_BYTES).trim().parse().ok()
                    }),
                    text: fit_text(&found.text, secrets),
                    fingerprint: found.fingerprint.and_then(|print| secrets.mask(&print).parse().ok()),
                }
            })
            .collect();
        // Of those that are equally bad the first stay first.
        findings.sort_by_key(|found| found.severity);
        let all = findings.len();
        let mut bytes = 0;
        let fitting = findings.iter().take(MAX_FINDINGS).take_while(|found| {
            bytes += serde_json::to_vec(found).map_or(MAX_FINDINGS_BYTES, |json| json.len() + 1);
            bytes <= MAX_FINDINGS_BYTES
        });
        findings.truncate(fitting.count());
        fitted.omitted = (all - findings.len()) as u64;
        if fitted.omitted > 0 {
            let count = text::count(fitted.omitted, "finding");
            fitted.remarks.push(format!(
                "{count} of {all} left out, the least severe: a message holds no more"
            ));
        }
        if !misplaced.is_empty() {
            fitted.misplaced = misplaced.len() as u64;
            let more = misplaced.len().saturating_sub(MOST_NAMED);
            let mut named: Vec<_> = misplaced.into_iter().take(MOST_NAMED).collect();
            if more > 0 {
                named.push(format!("and {more} more"));
            }
            let count = text::count(fitted.misplaced, "finding");
            let line = format!(
                "{count} sent without a place that the commit does not have: {}",
                named.join(", ")
            );
            fitted.remarks.push(line);
        }
        fitted.findings = findings;
        fitted
    }
}

type Anchor = (Option<TreePath>, Option<NonZeroU32>, Option<NonZeroU32>);

/// A place that is not there, and what of it is.
struct Lost {
    path: Option<TreePath>,
    why: String,
}

/// Where a finding is, as far as the commit has that.
fn anchor(
    found: &Reported,
    secrets: &Secrets,
    work_dir: Option<&Path>,
    place: &impl Fn(&TreePath) -> Place,
) -> Result<Anchor, Lost> {
    let Some(said) = &found.path else {
        return Ok((None, None, None));
    };
    let said = secrets.mask(said);
    let lost = |path: Option<TreePath>, why: String| Lost { path, why };
    let below = work_dir.and_then(|top| Path::new(&*said).strip_prefix(top).ok()?.to_str());
    let relative = below.unwrap_or(&said).trim_start_matches("./");
    let Ok(path) = relative.parse::<TreePath>() else {
        return Err(lost(None, text::path(&said)));
    };
    let lines = match place(&path) {
        Place::Nowhere => return Err(lost(None, text::path(&said))),
        Place::NoFile => return Ok((Some(path), None, None)),
        Place::Unknown | Place::File(None) => u64::MAX,
        Place::File(Some(lines)) => lines,
    };
    match found.line {
        Some(line) if u64::from(line.get()) > lines => {
            let why = format!("{}:{line} of {}", text::path(&said), text::count(lines, "line"));
            Err(lost(Some(path), why))
        }
        line => {
            let within = |end: &NonZeroU32| line.is_some_and(|line| *end >= line) && u64::from(end.get()) <= lines;
            Ok((Some(path), line, found.end_line.filter(within)))
        }
    }
}

/// A text without secrets, cut to what a review takes of one.
pub(crate) fn fit_text(said: &str, secrets: &Secrets) -> ReviewText {
    let masked = secrets.mask(said);
    let said = if masked.trim().is_empty() {
        SILENT
    } else {
        masked.trim_end()
    };
    cut(said, MAX_REVIEW_TEXT_BYTES)
        .parse()
        .expect("it says something and is not too long")
}

/// As much of a text as fits, with an ellipsis where it was cut.
fn cut(said: &str, most: usize) -> String {
    if said.len() <= most {
        return said.to_owned();
    }
    let mut end = most - ELLIPSIS.len();
    while !said.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ELLIPSIS}", &said[..end])
}

fn one_line(said: &str) -> String {
    said.chars()
        .map(|character| if is_hidden(character) { ' ' } else { character })
        .collect()
}

#[cfg(test)]
mod tests {
    use parler_protocol::Severity;

    use super::*;
    use crate::environment::Environment;

    fn reported(path: Option<&str>, lines: (u32, u32), severity: Severity, text: &str) -> Reported {
        Reported {
            path: path.map(str::to_owned),
            line: NonZeroU32::new(lines.0),
            end_line: NonZeroU32::new(lines.1),
            severity,
            rule: None,
            text: text.to_owned(),
            fingerprint: None,
        }
    }

    /// A tree of a file with ten lines, a directory, and a file that is not here.
    fn place(path: &TreePath) -> Place {
        match path.as_str() {
            "src/a.rs" => Place::File(Some(10)),
            "src" => Place::NoFile,
            "large" => Place::File(None),
            _ => Place::Nowhere,
        }
    }

    fn fit(reported: Vec<Reported>) -> Findings {
        Findings::fit(reported, &Secrets::default(), Some(Path::new("/job/work")), place)
    }

    #[test]
    fn a_finding_is_where_the_commit_has_a_place_for_it() {
        for (path, lines, kept) in [
            ("src/a.rs", (3, 5), Some(("src/a.rs", Some(3), Some(5)))),
            ("./src/a.rs", (10, 12), Some(("src/a.rs", Some(10), None))),
            ("/job/work/src/a.rs", (3, 2), Some(("src/a.rs", Some(3), None))),
            ("src", (3, 0), Some(("src", None, None))),
            ("large", (3000, 0), Some(("large", Some(3000), None))),
            ("src/a.rs", (11, 0), Some(("src/a.rs", None, None))),
            ("/etc/passwd", (1, 0), None),
            ("../a", (1, 0), None),
            ("src/gone.rs", (1, 0), None),
        ] {
            let fitted = fit(vec![reported(Some(path), lines, Severity::Error, "x")]);
            let found = &fitted.findings[0];
            let place = found.path.as_ref().map(|path| {
                let number = |number: Option<NonZeroU32>| number.map(NonZeroU32::get);
                (path.as_str(), number(found.line), number(found.end_line))
            });
            assert_eq!(place, kept, "{path}");
            assert_eq!(found.text.as_str(), "x", "{path}");
            let is_misplaced = kept.is_none() || lines.0 == 11;
            assert_eq!(
                (fitted.misplaced == 1, fitted.remarks.len() == 1),
                (is_misplaced, is_misplaced),
                "{path}"
            );
        }
        let told = fit(vec![reported(Some("src/a.rs"), (11, 0), Severity::Note, "x")]).remarks;
        assert!(told[0].ends_with("src/a.rs:11 of 10 lines"), "{told:?}");
    }

    #[test]
    fn the_worst_are_kept_and_the_others_counted() {
        let mut many: Vec<_> = (0..MAX_FINDINGS)
            .map(|number| reported(None, (0, 0), Severity::Note, &number.to_string()))
            .collect();
        many.push(reported(None, (0, 0), Severity::Warning, "so so"));
        many.push(reported(None, (0, 0), Severity::Error, "no"));
        let fitted = fit(many);
        assert_eq!((fitted.findings.len(), fitted.omitted), (MAX_FINDINGS, 2));
        let texts: Vec<_> = fitted
            .findings
            .iter()
            .take(3)
            .map(|found| found.text.as_str())
            .collect();
        assert_eq!(texts, ["no", "so so", "0"]);
        assert!(
            fitted.remarks[0].starts_with("2 findings of 1002 left out"),
            "{:?}",
            fitted.remarks
        );

        // Each is escaped to six times its length.
        let long = vec![reported(None, (0, 0), Severity::Note, &"\u{1}".repeat(9000)); 900];
        let fitted = fit(long);
        let bytes = serde_json::to_vec(&fitted.findings).unwrap().len();
        assert!(
            (MAX_FINDINGS_BYTES / 2..=MAX_FINDINGS_BYTES + 2).contains(&bytes),
            "{bytes}"
        );
        assert_eq!(fitted.findings.len() as u64 + fitted.omitted, 900);
    }

    #[test]
    fn texts_are_cut_between_characters_and_hold_no_secret() {
        let environment = Environment::for_test(&[("X_TOKEN", "abcdefgh")]);
        let secrets = Secrets::of(&environment, None);
        let said = fit_text(&format!("abcdefgh{}", "é".repeat(MAX_REVIEW_TEXT_BYTES)), &secrets);
        assert!(said.as_str().starts_with("***é") && said.as_str().ends_with('…'));
        assert_eq!(fit_text(" \n", &secrets).as_str(), SILENT);
        let mut found = reported(None, (0, 0), Severity::Note, "x");
        found.rule = Some(format!("abcdefgh\n{}", "r".repeat(MAX_RULE_BYTES)));
        found.fingerprint = Some("a b".to_owned());
        let fitted = Findings::fit(vec![found], &secrets, None, place);
        let rule = fitted.findings[0].rule.as_ref().unwrap().as_str();
        assert!(
            rule.starts_with("*** r") && rule.ends_with('…') && rule.len() <= MAX_RULE_BYTES,
            "{rule}"
        );
        assert_eq!(fitted.findings[0].fingerprint, None);
    }
}
