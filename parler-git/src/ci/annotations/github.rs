//! For GitHub Actions: workflow commands, which annotate lines of a change, and a summary of the job in Markdown.
//!
//! Source: GitHub's "Workflow commands" and its limits: 10 annotations of each kind a step, 1 MiB of summary a step.

use parler_protocol::{Finding, ReviewPart, Severity};

use super::{Written, called, place};
use crate::text;

/// Most annotations of each kind that are shown of a step.
const MOST_OF_A_KIND: usize = 10;
/// Most bytes of a summary: less than what is taken, which is nothing where it is more.
const MOST_SUMMARY: usize = 1_000_000;
/// Above the findings of a review.
const TABLE_HEAD: &str = "\n| | where | rule | |\n|---|---|---|---|\n";

/// One line for each finding, the first of each kind as far as they are shown.
pub(super) fn commands(reviews: &[ReviewPart]) -> Written {
    let mut text = String::new();
    let mut left_out = 0;
    let mut told = [0; 3];
    for review in reviews {
        for finding in &review.findings {
            let told = &mut told[finding.severity as usize];
            if *told == MOST_OF_A_KIND {
                left_out += 1;
                continue;
            }
            *told += 1;
            text.push_str(&command(review, finding));
        }
        left_out += review.omitted;
    }
    Written { text, left_out }
}

fn command(review: &ReviewPart, finding: &Finding) -> String {
    let kind = called(finding.severity, ["error", "warning", "notice"]);
    let mut properties = Vec::new();
    if let Some(path) = &finding.path {
        properties.push(format!("file={}", property(path.as_str())));
        for (name, line) in [("line", finding.line), ("endLine", finding.end_line)] {
            properties.extend(line.map(|line| format!("{name}={line}")));
        }
    }
    let title = match &finding.rule {
        Some(rule) => format!("{}: {}", review.context.as_str(), rule.as_str()),
        None => review.context.as_str().to_owned(),
    };
    properties.push(format!("title={}", property(&title)));
    format!("::{kind} {}::{}\n", properties.join(","), data(finding.text.as_str()))
}

/// A text behind `::`. A line in it is a line of the annotation, and no command.
fn data(said: &str) -> String {
    text::lines(said).join("\n").replace('%', "%25").replace('\n', "%0A")
}

fn property(said: &str) -> String {
    let line = text::lines(said).join(" ").replace('%', "%25");
    line.replace(':', "%3A").replace(',', "%2C")
}

/// A page of it: a table a review.
pub(super) fn summary(reviews: &[ReviewPart]) -> Written {
    let mut page = String::new();
    let mut left_out = 0;
    let mut push = |pieces: [&str; 2]| {
        let fits = page.len() + pieces.iter().map(|piece| piece.len()).sum::<usize>() <= MOST_SUMMARY;
        if fits {
            page.extend(pieces);
        }
        fits
    };
    for review in reviews {
        let status = review.status.as_str();
        push([&format!("\n### {}: {status}\n", plain(review.context.as_str())), ""]);
        if let Some(summary) = &review.summary {
            push([&format!("\n{}\n", plain(summary.as_str())), ""]);
        }
        let mut head = TABLE_HEAD;
        for finding in &review.findings {
            match push([head, &row(finding)]) {
                true => head = "",
                false => left_out += 1,
            }
        }
        left_out += review.omitted;
    }
    Written { text: page, left_out }
}

fn row(finding: &Finding) -> String {
    let rule = finding.rule.as_ref().map_or("", |rule| rule.as_str());
    format!(
        "| {} | {} | {} | {} |\n",
        called(finding.severity, ["error", "warning", "note"]),
        plain(&place(finding).unwrap_or_default()),
        plain(rule),
        plain(finding.text.as_str()),
    )
}

/// A text that is nothing but itself in Markdown and in HTML, on one line: every sign that could be more is a number.
fn plain(said: &str) -> String {
    let mut plain = String::new();
    for character in text::lines(said).join("\n").chars() {
        match character {
            '\n' => plain.push_str("<br>"),
            ' ' | '/' => plain.push(character),
            character if character.is_ascii() && !character.is_ascii_alphanumeric() => {
                plain.push_str(&format!("&#{};", u32::from(character)));
            }
            character => plain.push(character),
        }
    }
    plain
}

const _: () = assert!(Severity::Error as usize == 0 && Severity::Note as usize == 2);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{review, reviews};
    use super::*;

    #[test]
    fn each_finding_is_one_command_and_no_text_is_another() {
        let written = commands(&reviews());
        assert_eq!(
            written.text,
            "::error file=src/a b%3Ac%2Cd.rs,line=3,endLine=5,title=lint%3A R1::50%25 off%0A::error::mine%0A\
             ::stop-commands::x%0A]]></failure><b>|`\"}]\\u{1b}[2J\\u{202e} ##\\u{5b}add-mask]x www.evil.example \u{ffff}\n\
             ::warning file=b.rs,title=lint::so so\n\
             ::notice title=lint::by the way\n"
        );
        assert_eq!(written.left_out, 0);
    }

    #[test]
    fn more_than_is_shown_is_counted() {
        let many: Vec<_> = (0..25).map(|_| json!({ "severity": "error", "text": "x" })).collect();
        let written = commands(&[review("lint", json!(many)), review("other", json!(many))]);
        assert_eq!((written.text.lines().count(), written.left_out), (10, 40));
        let long: Vec<_> = (0..1000)
            .map(|_| json!({ "severity": "note", "text": "|".repeat(4000) }))
            .collect();
        let written = summary(&[review("lint", json!(long))]);
        assert!(written.text.len() <= MOST_SUMMARY, "{}", written.text.len());
        assert!(written.left_out > 900, "{}", written.left_out);
    }

    #[test]
    fn a_summary_holds_no_markup_but_its_own() {
        let page = summary(&reviews()).text;
        for line in page.lines().filter(|line| line.starts_with("| ")) {
            assert_eq!(line.matches('|').count(), 5, "{line}");
        }
        assert!(
            !page.contains(['`', '\u{1b}', '\u{202e}']) && !page.contains("<b>"),
            "{page}"
        );
        assert!(!page.contains("www."), "{page}");
        assert!(page.contains("### tests / linux: failure"));
    }
}
