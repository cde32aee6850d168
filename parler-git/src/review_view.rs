//! A review as people read it: how a commit stands, and what was found where. Shows what was said; whether it counts is not
//! decided here.

use parler_protocol::{CommitStatus, Finding, ReviewPart, Severity};

use crate::output::{HEADER, WARNING, styled};
use crate::text::{self, Extent};
use crate::view::{SHORT_OID_DIGITS, field, verbatim};

/// The lines of a review; `end` says until when it holds, where that has an end. In a list of messages the findings are counted,
/// and `cut` remembers that there are some.
pub(crate) fn render(review: &ReviewPart, end: Option<&str>, extent: Extent, cut: &mut bool) -> String {
    let end = end.map(|end| format!(" · {end}")).unwrap_or_default();
    let mut out = field("review", &format!("{}{end}", headline(review)));
    if let Some(summary) = &review.summary {
        out.push_str(&field("summary", &text::continued(extent.of(summary.as_str(), cut))));
    }
    if let Some(url) = &review.url {
        out.push_str(&verbatim("url", &text::one_line(url.as_str())));
    }
    match extent {
        Extent::Beginning => *cut |= !review.findings.is_empty(),
        Extent::Whole => {
            out.extend(review.findings.iter().map(finding));
            if review.omitted > 0 {
                out.push_str(&field("omitted", &text::count(review.omitted, "finding")));
            }
        }
    }
    out
}

/// `failure · tests · commit 0123456789 of github.com/org/shop · 2 errors, 1 warning`
fn headline(review: &ReviewPart) -> String {
    let commit = review.commit.to_string();
    let repository = review.repository.as_ref();
    let repository = repository.map(|id| format!(" of {}", text::name(id.as_str())));
    let counted = counted(review);
    let found = if counted.is_empty() {
        String::new()
    } else {
        format!(" · {counted}")
    };
    format!(
        "{} · {} · commit {}{}{found}",
        word(review.status),
        text::name(review.context.as_str()),
        &commit[..SHORT_OID_DIGITS],
        repository.unwrap_or_default(),
    )
}

/// A status, marked where it stands in the way.
pub(crate) fn word(status: CommitStatus) -> String {
    match status.is_bad() {
        true => styled(WARNING, status.as_str()).to_string(),
        false => status.as_str().to_owned(),
    }
}

/// How much was found: `2 errors, 1 warning, 7 more`. Empty where nothing was.
pub(crate) fn counted(review: &ReviewPart) -> String {
    let of = |severity: Severity| {
        review
            .findings
            .iter()
            .filter(|found| found.severity == severity)
            .count() as u64
    };
    let kinds = [Severity::Error, Severity::Warning, Severity::Note];
    let counts = kinds.map(|severity| (of(severity), severity.as_str()));
    let mut words: Vec<_> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, noun)| text::count(count, noun))
        .collect();
    if review.omitted > 0 {
        words.push(format!("{} more", review.omitted));
    }
    words.join(", ")
}

fn finding(found: &Finding) -> String {
    let place = found.path.as_ref().map(|path| {
        let lines = match (found.line, found.end_line) {
            (Some(line), Some(end)) if end > line => format!(":{line}-{end}"),
            (Some(line), _) => format!(":{line}"),
            _ => String::new(),
        };
        format!("{}{lines}", text::path(path.as_str()))
    });
    let rule = found.rule.as_ref().map(|rule| text::name(rule.as_str()));
    let before: Vec<_> = place.into_iter().chain(rule).collect();
    let said = text::continued(found.text.as_str());
    let line = match before.is_empty() {
        true => said,
        false => format!("{} · {said}", before.join(" · ")),
    };
    let label = found.severity.as_str();
    match found.severity {
        Severity::Error => styled(HEADER, &field(label, &line)),
        _ => field(label, &line),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn review() -> ReviewPart {
        let found = |path: Option<&str>, lines: (u32, u32), severity, rule: Option<&str>, text: &str| Finding {
            path: path.map(|path| path.parse().unwrap()),
            line: NonZeroU32::new(lines.0),
            end_line: NonZeroU32::new(lines.1),
            severity,
            rule: rule.map(|rule| rule.parse().unwrap()),
            text: text.parse().unwrap(),
            fingerprint: None,
        };
        ReviewPart {
            commit: "0123456789".repeat(4).parse().unwrap(),
            context: "tests / linux".parse().unwrap(),
            status: CommitStatus::Failure,
            repository: Some("git.example/shop".parse().unwrap()),
            summary: Some("two\n  review: success".parse().unwrap()),
            url: Some("https://ci.example/7".parse().unwrap()),
            findings: vec![
                found(
                    Some("src/a.rs"),
                    (3, 5),
                    Severity::Error,
                    Some("E1"),
                    "no\n  error:   forged",
                ),
                found(Some("a\n\u{1b}[2Jb"), (3, 3), Severity::Warning, None, "so \u{202e}so"),
                found(None, (0, 0), Severity::Note, None, "by the way"),
            ],
            omitted: 4,
            ttl_secs: None,
        }
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn all_of_it_is_shown_to_who_asks_and_nothing_imitates_us() {
        let mut cut = false;
        let shown = plain(&render(&review(), None, Extent::Whole, &mut cut));
        let expected = "  review:  failure · \"tests / linux\" · commit 0123456789 of git.example/shop · 1 error, 1 warning, 1 note, 4 more
  summary: two
│   review: success
  url:     https://ci.example/7
  error:   src/a.rs:3-5 · E1 · no
│   error:   forged
  warning: \"a\\u{a}\\u{1b}[2Jb\":3 · so \\u{202e}so
  note:    by the way
  omitted: 4 findings
";
        assert_eq!(shown, expected);
        assert!(!cut);
    }

    #[test]
    fn a_list_counts_what_was_found() {
        let mut cut = false;
        let shown = plain(&render(&review(), None, Extent::Beginning, &mut cut));
        assert_eq!(shown.lines().count(), 4, "{shown}");
        assert!(cut, "there is more to show");
        let mut nothing = review();
        (nothing.findings, nothing.omitted, nothing.summary, nothing.url) = (Vec::new(), 0, None, None);
        nothing.status = CommitStatus::Success;
        let mut cut = false;
        let shown = plain(&render(
            &nothing,
            Some("expired yesterday"),
            Extent::Beginning,
            &mut cut,
        ));
        assert_eq!(
            (shown.as_str(), cut),
            (
                "  review:  success · \"tests / linux\" · commit 0123456789 of git.example/shop · expired yesterday\n",
                false
            )
        );
    }
}
