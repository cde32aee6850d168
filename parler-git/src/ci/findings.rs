//! A tool's findings on their way into a message: without secrets, each in a place that the commit has, cut to what the wire
//! takes, the worst first. What does not fit is counted and told, never lost without a word.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::Path;

use git_remote_parler::repository::Place;
use parler_protocol::limits::{MAX_FINDINGS, MAX_REVIEW_TEXT_BYTES, MAX_RULE_BYTES};
use parler_protocol::{Finding, Fingerprint, ReviewText, RuleName, TreePath, is_hidden};

use super::fingerprint;
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
        mut reported: Vec<Reported>,
        secrets: &Secrets,
        work_dir: Option<&Path>,
        mut place: impl FnMut(&TreePath, Option<NonZeroU32>) -> Place,
    ) -> Self {
        let mut fitted = Self::default();
        let mut prints = Prints::default();
        let mut misplaced = Vec::new();
        let all = reported.len();
        // Of those that are equally bad the first stay first. Before their places are looked at, which costs the most.
        reported.sort_by_key(|found| found.severity);
        reported.truncate(MAX_FINDINGS);
        let mut findings: Vec<Finding> = reported
            .into_iter()
            .map(|found| {
                let anchor = anchor(&found, secrets, work_dir, &mut place).unwrap_or_else(|lost| {
                    misplaced.push(lost.why);
                    Anchor {
                        path: lost.path,
                        ..Anchor::default()
                    }
                });
                let rule: Option<RuleName> = found.rule.as_deref().and_then(|rule| {
                    let visible = one_line(&secrets.mask(rule));
                    cut(visible.trim(), MAX_RULE_BYTES).trim().parse().ok()
                });
                let text = fit_text(&found.text, secrets);
                let told = found.fingerprint.and_then(|print| secrets.mask(&print).parse().ok());
                let fingerprint = told.unwrap_or_else(|| prints.of(&anchor, rule.as_ref(), &text));
                Finding {
                    path: anchor.path,
                    line: anchor.line,
                    end_line: anchor.end_line,
                    severity: found.severity,
                    rule,
                    text,
                    fingerprint: Some(fingerprint),
                }
            })
            .collect();
        let mut bytes = 0;
        let fitting = findings.iter().take_while(|found| {
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

/// Where a finding is.
#[derive(Default)]
struct Anchor {
    path: Option<TreePath>,
    line: Option<NonZeroU32>,
    end_line: Option<NonZeroU32>,
    /// What the line says.
    said: Option<String>,
}

/// Fingerprints of findings whose tool gave none: the same in another commit as long as the line says the same, wherever it
/// is by then.
#[derive(Default)]
struct Prints(HashMap<String, u64>);

impl Prints {
    /// Of the file, the rule and the line without its indentation; where no line is known, of what was found. Of several that
    /// are alike each has its own, in the order in which they were reported.
    fn of(&mut self, anchor: &Anchor, rule: Option<&RuleName>, text: &ReviewText) -> Fingerprint {
        let path = anchor.path.as_ref().map_or("", |path| path.as_str());
        let rule = rule.map_or("", |rule| rule.as_str());
        let said: Vec<_> = anchor
            .said
            .as_deref()
            .unwrap_or(text.as_str())
            .split_whitespace()
            .collect();
        let print = fingerprint::of(&[path, rule, &said.join(" ")]);
        let before = self.0.entry(print.clone()).or_default();
        *before += 1;
        let print = match *before {
            1 => print,
            again => format!("{print}:{again}"),
        };
        print.parse().expect("visible characters, and few")
    }
}

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
    place: &mut impl FnMut(&TreePath, Option<NonZeroU32>) -> Place,
) -> Result<Anchor, Lost> {
    let Some(said) = &found.path else {
        return Ok(Anchor::default());
    };
    let said = secrets.mask(said);
    let lost = |path: Option<TreePath>, why: String| Lost { path, why };
    let below = work_dir.and_then(|top| Path::new(&*said).strip_prefix(top).ok()?.to_str());
    let relative = below.unwrap_or(&said).trim_start_matches("./");
    let Ok(path) = relative.parse::<TreePath>() else {
        return Err(lost(None, text::path(&said)));
    };
    let (lines, asked) = match place(&path, found.line) {
        Place::Nowhere => return Err(lost(None, text::path(&said))),
        Place::NoFile => {
            return Ok(Anchor {
                path: Some(path),
                ..Anchor::default()
            });
        }
        Place::Unknown | Place::File(None) => (u64::MAX, None),
        Place::File(Some(lines)) => (lines.count, lines.asked),
    };
    match found.line {
        Some(line) if u64::from(line.get()) > lines => {
            let why = format!("{}:{line} of {}", text::path(&said), text::count(lines, "line"));
            Err(lost(Some(path), why))
        }
        line => {
            let within = |end: &NonZeroU32| line.is_some_and(|line| *end >= line) && u64::from(end.get()) <= lines;
            Ok(Anchor {
                path: Some(path),
                line,
                end_line: found.end_line.filter(within),
                said: asked,
            })
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
    let end = said.floor_char_boundary(most - ELLIPSIS.len());
    format!("{}{ELLIPSIS}", &said[..end])
}

fn one_line(said: &str) -> String {
    said.chars()
        .map(|character| if is_hidden(character) { ' ' } else { character })
        .collect()
}

#[cfg(test)]
mod tests {
    use git_remote_parler::repository::Lines;
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
    fn place(path: &TreePath, line: Option<NonZeroU32>) -> Place {
        match path.as_str() {
            "src/a.rs" => Place::File(Some(Lines {
                count: 10,
                asked: line.filter(|line| line.get() <= 10).map(|line| format!("line {line}")),
            })),
            "src" => Place::NoFile,
            "large" => Place::File(None),
            _ => Place::Nowhere,
        }
    }

    fn fit(reported: Vec<Reported>) -> Findings {
        Findings::fit(reported, &Secrets::default(), Some(Path::new("/checkout")), place)
    }

    #[test]
    fn a_finding_is_where_the_commit_has_a_place_for_it() {
        for (path, lines, kept) in [
            ("src/a.rs", (3, 5), Some(("src/a.rs", Some(3), Some(5)))),
            ("./src/a.rs", (10, 12), Some(("src/a.rs", Some(10), None))),
            ("/checkout/src/a.rs", (3, 2), Some(("src/a.rs", Some(3), None))),
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
    fn a_fingerprint_is_that_of_the_line_wherever_it_is() {
        let print = |line: u32, says: &str, rule: &str| {
            let mut found = reported(Some("src/a.rs"), (line, 0), Severity::Error, &format!("at line {line}"));
            found.rule = Some(rule.to_owned());
            let place = |_: &TreePath, _| {
                Place::File(Some(Lines {
                    count: 100,
                    asked: Some(says.to_owned()),
                }))
            };
            let fitted = Findings::fit(vec![found.clone(), found], &Secrets::default(), None, place);
            let prints = fitted.findings.into_iter().map(|found| found.fingerprint.unwrap());
            prints.map(|print| print.as_str().to_owned()).collect::<Vec<_>>()
        };
        let here = print(3, "  let a = b;", "unused");
        assert_eq!(here, print(30, "let a =  b;\t", "unused"));
        assert_ne!(here[0], here[1]);
        assert_ne!(here, print(3, "let a = c;", "unused"));
        assert_ne!(here, print(3, "let a = b;", "other"));
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
        // One that is none is made.
        let print = fitted.findings[0].fingerprint.as_ref().unwrap().as_str();
        assert_eq!(print.len(), 32);
    }
}
