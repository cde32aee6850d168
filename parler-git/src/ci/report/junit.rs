//! Reports in JUnit's XML, as test runners write it: each test that failed or broke is a finding. Nothing of it is believed to be
//! well made but the XML itself; definitions of entities are refused.

use std::num::NonZeroU32;

use parler_protocol::Severity;
use roxmltree::{Document, Node, ParsingOptions};

use super::{Collected, Report, Reported};
use crate::ci::fingerprint;
use crate::text;

/// Most nodes that are read, a bound of memory; attributes are bounded by the size of the report.
const MOST_NODES: u32 = 4_000_000;
/// Most attributes of an element, and most declarations of namespaces: the reader compares each with each.
const MOST_ATTRIBUTES: usize = 64;
const MOST_NAMESPACES: usize = 64;

/// How the tests of a report ended.
#[derive(Default)]
struct Counts {
    tests: u64,
    failed: u64,
    broken: u64,
    skipped: u64,
}

/// Reads a report. The error names what is not of the form, and where.
pub(super) fn read(bytes: &[u8]) -> Result<Report, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("it is not UTF-8: {error}"))?;
    if is_laborious(text) {
        return Err("an element has too many attributes, or it has too many namespaces".to_owned());
    }
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: MOST_NODES,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).map_err(|error| error.to_string())?;
    let root = document.root_element();
    if !["testsuites", "testsuite"].contains(&root.tag_name().name()) {
        return Err(format!(
            "<{}> is no report of tests: <testsuites> or <testsuite> is",
            root.tag_name().name()
        ));
    }
    let mut counts = Counts::default();
    let mut findings = Collected::default();
    for node in root.descendants().filter(Node::is_element) {
        match node.tag_name().name() {
            "testcase" => look_at(node, &mut counts, &mut findings)?,
            // What broke a suite is no test's.
            "error"
                if node
                    .parent()
                    .is_some_and(|above| above.tag_name().name() == "testsuite") =>
            {
                counts.broken += 1;
                let suite = node
                    .parent()
                    .and_then(|suite| suite.attribute("name"))
                    .unwrap_or_default();
                findings.push(reported(node, suite.to_owned(), None, None))?;
            }
            _ => {}
        }
    }
    Ok(Report {
        summary: Some(counts.line()),
        findings: findings.findings,
    })
}

/// Whether reading it would take long, told in one pass and without understanding it.
fn is_laborious(text: &str) -> bool {
    let (mut rest, mut namespaces) = (text, 0);
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        let apart = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
        if let Some((begin, end)) = apart.into_iter().find(|(begin, _)| rest.starts_with(begin)) {
            let Some(at) = rest[begin.len()..].find(end) else {
                return false;
            };
            rest = &rest[begin.len() + at + end.len()..];
            continue;
        }
        let (mut open, mut attributes, mut end) = (None, 0, rest.len());
        for (at, byte) in rest.bytes().enumerate() {
            match (open, byte) {
                (None, b'"' | b'\'') => {
                    (open, attributes) = (Some(byte), attributes + 1);
                    let name = rest[..at].trim_end().trim_end_matches('=').trim_end();
                    let name = name
                        .rsplit(|sign: char| sign.is_whitespace() || sign == '"' || sign == '\'')
                        .next();
                    namespaces += usize::from(name.is_some_and(|name| name.starts_with("xmlns")));
                }
                (Some(quote), _) if quote == byte => open = None,
                (None, b'>') => {
                    end = at + 1;
                    break;
                }
                _ => {}
            }
            if attributes > MOST_ATTRIBUTES || namespaces > MOST_NAMESPACES {
                return true;
            }
        }
        rest = &rest[end..];
    }
    false
}

fn look_at(test: Node<'_, '_>, counts: &mut Counts, findings: &mut Collected) -> Result<(), String> {
    counts.tests += 1;
    let has = |name: &str| test.children().find(|child| child.tag_name().name() == name);
    let (failed, broken) = (has("failure"), has("error"));
    counts.failed += u64::from(failed.is_some());
    counts.broken += u64::from(failed.is_none() && broken.is_some());
    counts.skipped += u64::from(failed.is_none() && broken.is_none() && has("skipped").is_some());
    let Some(why) = failed.or(broken) else { return Ok(()) };
    let attribute = |name: &str| test.attribute(name).filter(|value| !value.trim().is_empty());
    let name = attribute("name").unwrap_or("(without a name)");
    let name = match attribute("classname") {
        Some(class) => format!("{class}.{name}"),
        None => name.to_owned(),
    };
    // Of the suite where the test does not say: PHPUnit and pytest differ in that.
    let file = attribute("file").or_else(|| test.parent()?.attribute("file"));
    let line = attribute("line").and_then(|line| line.trim().parse().ok());
    findings.push(reported(why, name, file.map(str::to_owned), line))
}

fn reported(why: Node<'_, '_>, name: String, path: Option<String>, line: Option<NonZeroU32>) -> Reported {
    let message = why.attribute("message").unwrap_or_default().trim();
    let detail: String = why
        .children()
        .filter(Node::is_text)
        .filter_map(|text| text.text())
        .collect();
    let detail = detail.trim();
    // Most write the message again at the beginning of what follows.
    let said = match (message, detail) {
        ("", detail) => detail.to_owned(),
        (message, "") => message.to_owned(),
        (message, detail) if detail.starts_with(message) => detail.to_owned(),
        (message, detail) => format!("{message}\n{detail}"),
    };
    let text = match said.as_str() {
        "" => name.clone(),
        said => format!("{name}: {said}"),
    };
    let line = line.filter(|_| path.is_some());
    Reported {
        path,
        line,
        end_line: None,
        severity: Severity::Error,
        // What it says holds times and numbers of lines, which are others each time.
        fingerprint: line.is_none().then(|| fingerprint::of(&[&name])),
        rule: Some(name),
        text,
    }
}

impl Counts {
    fn line(&self) -> String {
        let mut line = text::count(self.tests, "test");
        for (count, word) in [
            (self.failed, "failed"),
            (self.broken, "broken"),
            (self.skipped, "skipped"),
        ] {
            if count > 0 {
                line.push_str(&format!(", {count} {word}"));
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PYTEST: &str = r#"<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" errors="0" failures="1" tests="3">
        <testcase classname="test_a.TestA" name="test_one" file="test_a.py" line="12" time="0.001"/>
        <testcase classname="test_a.TestA" name="test_two" file="test_a.py" line="15"><failure message="assert 1 == 2">def test_two():
&gt;       assert 1 == 2</failure></testcase>
        <testcase classname="test_a" name="test_three"><skipped message="later"/></testcase></testsuite></testsuites>"#;

    #[test]
    fn each_test_that_failed_is_a_finding() {
        let report = read(PYTEST.as_bytes()).unwrap();
        assert_eq!(report.summary.as_deref(), Some("3 tests, 1 failed, 1 skipped"));
        let [found] = &report.findings[..] else {
            panic!("{report:?}")
        };
        assert_eq!(
            (found.path.as_deref(), found.line),
            (Some("test_a.py"), NonZeroU32::new(15))
        );
        assert_eq!(found.rule.as_deref(), Some("test_a.TestA.test_two"));
        assert_eq!(
            found.text,
            "test_a.TestA.test_two: assert 1 == 2\ndef test_two():\n>       assert 1 == 2"
        );
    }

    #[test]
    fn suites_stand_alone_in_each_other_and_break() {
        let text = r#"<testsuite name="s" file="a.php"><testsuite name="inner" file="b.php"><testcase name="x"><error><![CDATA[boom <&>]]></error>
            </testcase></testsuite><error message="no start"/></testsuite>"#;
        let report = read(text.as_bytes()).unwrap();
        assert_eq!(report.summary.as_deref(), Some("1 test, 2 broken"));
        assert_eq!(report.findings[0].path.as_deref(), Some("b.php"));
        assert_eq!(report.findings[0].text, "x: boom <&>");
        assert_eq!(report.findings[1].text, "s: no start");
    }

    #[test]
    fn what_a_runner_tried_again_and_passed_has_passed() {
        let text = r#"<testsuite><testcase name="x"><flakyFailure message="once"/></testcase></testsuite>"#;
        assert!(read(text.as_bytes()).unwrap().findings.is_empty());
    }

    #[test]
    fn what_is_no_report_is_named() {
        let bomb = r#"<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><testsuite name="&b;"/>"#;
        for (text, named) in [
            ("<html/>", "<html>"),
            ("<testsuite>", "never closed"),
            (bomb, "DTD"),
            ("<testsuite name=\"&x;\"/>", "x"),
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
        let names: String = (0..100)
            .map(|number| format!("<testsuite xmlns:a{number}='u'>"))
            .collect();
        let attributes: String = (0..100).map(|number| format!(" a{number}=''")).collect();
        for laborious in [names, format!("<testsuite{attributes}/>")] {
            assert!(read(laborious.as_bytes()).unwrap_err().contains("too many"));
        }
        let again = format!(
            "<testsuite name='{}'>{}</testsuite>",
            "x".repeat(1 << 20),
            "<error/>".repeat(1000)
        );
        assert!(read(again.as_bytes()).unwrap_err().contains("again and again"));
        let deep = format!("{}{}", "<testsuite>".repeat(100_000), "</testsuite>".repeat(100_000));
        assert_eq!(read(deep.as_bytes()).unwrap().findings, []);
    }
}
