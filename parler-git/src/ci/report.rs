//! What a tool reports, in the forms that are read: findings, each in a place or in none. Reads one form at a time, strictly;
//! whether the places are there is decided elsewhere.

use std::num::NonZeroU32;

use parler_protocol::Severity;
use serde::Deserialize;
use serde::de::IgnoredAny;

mod junit;
mod sarif;

/// Largest report that is read.
pub(crate) const MAX_REPORT_BYTES: u64 = 32 << 20; // 32 MiB

/// Most bytes of all texts of a report: more than one has that says each thing once, or the name of a test a few times.
const MAX_TEXT_BYTES: usize = 3 * MAX_REPORT_BYTES as usize;

/// The version of the form that this program documents.
const VERSION: u32 = 1;

/// The forms of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportFormat {
    /// The JSON that `docs/ci.md` documents.
    Json,
    /// What test runners write.
    Junit,
    /// What tools that look at code write.
    Sarif,
}

/// What a tool found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    /// For people.
    pub(crate) summary: Option<String>,
    /// In the order in which they were found.
    pub(crate) findings: Vec<Reported>,
}

/// What says which form of it the rest is of.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// The documented form of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonReport {
    #[serde(rename = "version")]
    _version: u32,
    #[serde(default)]
    summary: Option<String>,
    findings: Vec<Reported>,
}

/// A finding, as its tool has it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Reported {
    /// From the top of the repository, or below its work tree.
    #[serde(default)]
    pub(crate) path: Option<String>,
    /// From 1.
    #[serde(default)]
    pub(crate) line: Option<NonZeroU32>,
    #[serde(default)]
    pub(crate) end_line: Option<NonZeroU32>,
    pub(crate) severity: Severity,
    #[serde(default)]
    pub(crate) rule: Option<String>,
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) fingerprint: Option<String>,
}

/// Findings while a report is read.
#[derive(Default)]
struct Collected {
    findings: Vec<Reported>,
    bytes: usize,
}

impl Collected {
    fn push(&mut self, found: Reported) -> Result<(), String> {
        let others = [&found.path, &found.rule, &found.fingerprint];
        self.bytes += found.text.len() + others.into_iter().flatten().map(String::len).sum::<usize>();
        if self.bytes > MAX_TEXT_BYTES {
            return Err("it says one long text again and again".to_owned());
        }
        self.findings.push(found);
        Ok(())
    }
}

impl ReportFormat {
    /// The form of these bytes, as far as their beginning tells.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Runs {
            #[serde(rename = "runs")]
            _runs: IgnoredAny,
        }
        match without_mark(bytes).trim_ascii_start().first() {
            Some(b'<') => Self::Junit,
            _ if serde_json::from_slice::<Runs>(without_mark(bytes)).is_ok() => Self::Sarif,
            _ => Self::Json,
        }
    }

    /// Reads a report. The error names what is not of the form, and where.
    pub(crate) fn read(self, bytes: &[u8]) -> Result<Report, String> {
        let bytes = without_mark(bytes);
        match self {
            Self::Json => read_json(bytes),
            Self::Junit => junit::read(bytes),
            Self::Sarif => sarif::read(bytes),
        }
    }
}

/// Some tools begin with the mark of an order of bytes, which UTF-8 does not have.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

fn read_json(bytes: &[u8]) -> Result<Report, String> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err("it is no JSON object".to_owned());
    }
    let of = |error: serde_json::Error| error.to_string();
    // First: another version may have other fields.
    let Versioned { version } = serde_json::from_slice(bytes).map_err(of)?;
    if version != VERSION {
        return Err(format!(
            "version {version} is not {VERSION}, the one that this program reads"
        ));
    }
    let read: JsonReport = serde_json::from_slice(bytes).map_err(of)?;
    Ok(Report {
        summary: read.summary,
        findings: read.findings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Report, String> {
        ReportFormat::of(text.as_bytes()).read(text.as_bytes())
    }

    #[test]
    fn the_documented_form_is_read() {
        let report = read(
            r#"{"version": 1, "summary": "one", "findings": [
                {"path": "a.rs", "line": 3, "endLine": 4, "severity": "error", "rule": "r", "text": "t", "fingerprint": "f"},
                {"severity": "note", "text": "by the way"}]}"#,
        )
        .unwrap();
        assert_eq!(report.summary.as_deref(), Some("one"));
        assert_eq!(report.findings[0].end_line, NonZeroU32::new(4));
        assert_eq!(
            (report.findings[1].severity, &report.findings[1].path),
            (Severity::Note, &None)
        );
    }

    #[test]
    fn a_report_is_known_by_its_beginning() {
        for (text, format) in [
            ("\u{feff} <testsuites/>", ReportFormat::Junit),
            ("\u{feff}{\"version\": \"2.1.0\", \"runs\": []}", ReportFormat::Sarif),
            ("{\"version\": 1, \"findings\": []}", ReportFormat::Json),
            ("", ReportFormat::Json),
        ] {
            assert_eq!(ReportFormat::of(text.as_bytes()), format, "{text}");
        }
        assert_eq!(read("\u{feff}<testsuites/>").unwrap().findings, []);
    }

    /// A field that is misspelt would be lost without a word.
    #[test]
    fn what_is_not_of_the_form_is_named() {
        for (text, named) in [
            ("", "no JSON object"),
            ("[1, null, []]", "no JSON object"),
            ("{", "EOF"),
            (r#"{"findings": []}"#, "version"),
            (r#"{"version": 2, "findings": {}}"#, "version 2"),
            (r#"{"version": 1}"#, "findings"),
            (
                r#"{"version": 1, "findings": [{"severity": "fatal", "text": "x"}]}"#,
                "fatal",
            ),
            (r#"{"version": 1, "findings": [{"severity": "note"}]}"#, "text"),
            (
                r#"{"version": 1, "findings": [{"severity": "note", "text": "x", "file": "a"}]}"#,
                "file",
            ),
            (
                r#"{"version": 1, "findings": [{"severity": "note", "text": "x", "line": 0}]}"#,
                "nonzero",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
