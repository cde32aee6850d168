//! Reports in SARIF: what a run of a tool says is wrong, without what it says is right, was taken out, or somebody has accepted.
//!
//! Source: the standard, OASIS SARIF 2.1.0.

use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZeroU32;

use parler_protocol::Severity;
use parler_protocol::limits::{MAX_REVIEW_TEXT_BYTES, MAX_TREE_PATH_BYTES};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Collected, Report, Reported};

/// The versions whose results have this form; 2.0.0 was never a standard.
const VERSIONS: &str = "2.1";
/// Before an address that names a file of this machine.
const FILE: &str = "file://";
/// Longest message that is put together, and longest piece of one, in bytes: what is sent is cut to less, after secrets are
/// gone.
const MOST_TEXT_BYTES: usize = 4 * MAX_REVIEW_TEXT_BYTES;
/// Longest number of an argument.
const MOST_DIGITS: usize = 8;
/// How many levels of an id are looked at.
const MOST_LEVELS: usize = 8;

/// The rules of a component of a tool.
type RulesById<'a> = HashMap<&'a str, &'a Rule>;

#[derive(Deserialize)]
struct Log {
    version: String,
    #[serde(default)]
    runs: Vec<Run>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    tool: Tool,
    // Null: the tool could not look.
    #[serde(default)]
    results: Option<Vec<SarifResult>>,
    #[serde(default)]
    original_uri_base_ids: Map<String, Value>,
}

#[derive(Deserialize)]
struct Tool {
    driver: Component,
    #[serde(default)]
    extensions: Vec<Component>,
}

#[derive(Deserialize)]
struct Component {
    #[serde(default)]
    name: String,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: String,
    #[serde(default)]
    default_configuration: Configuration,
    #[serde(default)]
    message_strings: Map<String, Value>,
}

#[derive(Default, Deserialize)]
struct Configuration {
    level: Option<Level>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Error,
    Warning,
    Note,
    None,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult {
    rule_id: Option<String>,
    rule_index: Option<i64>,
    rule: Option<Reference>,
    kind: Option<String>,
    level: Option<Level>,
    message: Message,
    #[serde(default)]
    locations: Vec<Location>,
    #[serde(default)]
    partial_fingerprints: Map<String, Value>,
    #[serde(default)]
    fingerprints: Map<String, Value>,
    #[serde(default)]
    suppressions: Vec<Suppression>,
    baseline_state: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    id: Option<String>,
    index: Option<i64>,
    tool_component: Option<ComponentReference>,
}

#[derive(Deserialize)]
struct ComponentReference {
    index: Option<i64>,
}

#[derive(Deserialize)]
struct Message {
    text: Option<String>,
    id: Option<String>,
    #[serde(default)]
    arguments: Vec<String>,
}

#[derive(Deserialize)]
struct Suppression {
    status: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    physical_location: Option<PhysicalLocation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: Option<ArtifactLocation>,
    region: Option<Region>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactLocation {
    uri: Option<String>,
    uri_base_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: Option<i64>,
    end_line: Option<i64>,
}

/// Reads a log. The error names what is not of the form, and where.
pub(super) fn read(bytes: &[u8]) -> Result<Report, String> {
    let log: Log = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if log.version != VERSIONS && !log.version.starts_with("2.1.") {
        return Err(format!(
            "SARIF {} is not 2.1.0, the one that this program reads",
            log.version
        ));
    }
    let mut findings = Collected::default();
    let mut names: Vec<String> = Vec::new();
    for run in &log.runs {
        let Some(results) = &run.results else {
            return Err(format!("{} could not look, and has no results", run.tool.driver.name));
        };
        names.push(run.tool.driver.name.clone());
        let components = std::iter::once(&run.tool.driver).chain(&run.tool.extensions);
        // Of several rules of one id the first.
        let known: Vec<RulesById<'_>> = components
            .map(|part| part.rules.iter().rev().map(|rule| (rule.id.as_str(), rule)).collect())
            .collect();
        for found in results.iter().filter_map(|result| finding(run, &known, result)) {
            findings.push(found)?;
        }
    }
    names.retain(|name| !name.is_empty());
    Ok(Report {
        summary: (!names.is_empty()).then(|| names.join(", ")),
        findings: findings.findings,
    })
}

fn finding(run: &Run, known: &[RulesById<'_>], result: &SarifResult) -> Option<Reported> {
    // Such as `pass`, `open` and `notApplicable`: a result that is none of these is a failure, also where it does not say so.
    if result
        .kind
        .as_deref()
        .is_some_and(|kind| kind != "fail" && kind != "review")
    {
        return None;
    }
    let is_accepted =
        |suppression: &Suppression| suppression.status.as_deref().is_none_or(|status| status == "accepted");
    if result.baseline_state.as_deref() == Some("absent")
        || !result.suppressions.is_empty() && result.suppressions.iter().all(is_accepted)
    {
        return None;
    }
    let rule = rule_of(run, known, result);
    let configured = rule.and_then(|rule| rule.default_configuration.level);
    let severity = match result.level.or(configured).unwrap_or(Level::Warning) {
        Level::Error => Severity::Error,
        Level::Warning => Severity::Warning,
        Level::Note | Level::None => Severity::Note,
    };
    let place = result
        .locations
        .iter()
        .find_map(|location| location.physical_location.as_ref());
    let path = place
        .and_then(|place| place.artifact_location.as_ref())
        .and_then(|location| path_of(run, location));
    let region = place.and_then(|place| place.region.as_ref()).filter(|_| path.is_some());
    let line = region.and_then(|region| line_of(region.start_line));
    let id = result.rule_id.clone();
    let id = id.or_else(|| result.rule.as_ref()?.id.clone());
    let id = id.or_else(|| Some(rule?.id.clone()));
    let end_line = region
        .and_then(|region| line_of(region.end_line))
        .filter(|_| line.is_some());
    Some(Reported {
        path,
        line,
        end_line: end_line.filter(|end| Some(*end) >= line),
        severity,
        rule: id,
        text: text_of(rule, &result.message),
        fingerprint: fingerprint_of(result),
    })
}

fn rule_of<'a>(run: &'a Run, known: &[RulesById<'a>], result: &SarifResult) -> Option<&'a Rule> {
    let reference = result.rule.as_ref();
    let component = reference.and_then(|rule| index(rule.tool_component.as_ref()?.index));
    let (component, rules) = match component {
        Some(number) => (run.tool.extensions.get(number)?, known.get(number + 1)?),
        None => (&run.tool.driver, known.first()?),
    };
    let number = index(result.rule_index).or_else(|| index(reference?.index));
    if let Some(rule) = number.and_then(|number| component.rules.get(number)) {
        return Some(rule);
    }
    let id = result.rule_id.as_deref().or_else(|| reference?.id.as_deref())?;
    // An id may say more than its rule's: `CA1000/1`.
    let above = || {
        id.rmatch_indices('/')
            .take(MOST_LEVELS)
            .find_map(|(at, _)| rules.get(&id[..at]).copied())
    };
    rules.get(id).copied().or_else(above)
}

/// An index; -1, the standard's own default, is none.
fn index(said: Option<i64>) -> Option<usize> {
    usize::try_from(said?).ok()
}

/// A line. Some tools say 0 where there is none.
fn line_of(said: Option<i64>) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(said?).ok()?)
}

/// The message, with its arguments in the place of `{0}` and so on. What an argument holds is not looked at again.
fn text_of(rule: Option<&Rule>, message: &Message) -> String {
    let named = || rule?.message_strings.get(message.id.as_deref()?)?.get("text")?.as_str();
    let mut rest = beginning(message.text.as_deref().or_else(named).unwrap_or_default());
    let mut text = String::new();
    while let Some(at) = rest.find('{').filter(|_| text.len() < MOST_TEXT_BYTES) {
        text.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let end = behind.bytes().take(MOST_DIGITS + 1).position(|byte| byte == b'}');
        let argument = end.and_then(|end| message.arguments.get(behind[..end].parse::<usize>().ok()?));
        match (argument, end) {
            (Some(argument), Some(end)) => {
                text.push_str(beginning(argument));
                rest = &behind[end + 1..];
            }
            _ => {
                text.push('{');
                rest = behind;
            }
        }
    }
    text + rest
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_TEXT_BYTES)]
}

/// The file, from the top of the repository where the tool says so, else as it says it.
fn path_of(run: &Run, location: &ArtifactLocation) -> Option<String> {
    let uri = location.uri.as_deref()?;
    let base = location.uri_base_id.as_deref();
    let base = base.and_then(|id| run.original_uri_base_ids.get(id)?.get("uri")?.as_str());
    let base = base.filter(|base| base.len() <= MAX_TREE_PATH_BYTES);
    let uri: Cow<'_, str> = match base {
        // Where an address is whole its base says nothing.
        Some(base) if !uri.contains("://") && base.starts_with(FILE) => {
            format!("{}/{uri}", base.trim_end_matches('/')).into()
        }
        _ => uri.into(),
    };
    let path = match uri.strip_prefix(FILE) {
        // Behind a host, which is this machine where it is empty.
        Some(rest) => &rest[rest.find('/')?..],
        None if uri.contains("://") => return None,
        None => &uri,
    };
    percent_decode_str(path).decode_utf8().ok().map(Cow::into_owned)
}

/// What is the same for the same result in another commit: where there are several, that by the first name.
fn fingerprint_of(result: &SarifResult) -> Option<String> {
    let all = [&result.fingerprints, &result.partial_fingerprints];
    let mut named = all.into_iter().flat_map(|map| map.iter());
    named.find_map(|(name, value)| Some(format!("{name}:{}", value.as_str()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_json(log: &Value) -> Result<Report, String> {
        read(log.to_string().as_bytes())
    }

    fn one(result: Value) -> Option<Reported> {
        let rules = json!([
            { "id": "R1", "defaultConfiguration": { "level": "error" }, "messageStrings": { "default": { "text": "{0} is not {1}" } } },
            { "id": "R2" },
        ]);
        let log = json!({ "version": "2.1.0", "runs": [{
            "tool": { "driver": { "name": "lint", "rules": rules } },
            "originalUriBaseIds": { "TOP": { "uri": "file:///checkout/" }, "SRCROOT": {} },
            "results": [result],
        }] });
        let mut findings = read_json(&log).unwrap().findings;
        assert!(findings.len() <= 1);
        findings.pop()
    }

    #[test]
    fn a_result_is_a_finding_with_its_place_and_rule() {
        let found = one(json!({
            "ruleId": "R1", "message": { "id": "default", "arguments": ["x", "y"] },
            "locations": [{ "physicalLocation": {
                "artifactLocation": { "uri": "src/a%20b.rs", "uriBaseId": "TOP" }, "region": { "startLine": 3, "endLine": 5 },
            } }],
            "partialFingerprints": { "primaryLocationLineHash": "39fa2ee980eb94b0:1" },
        }));
        let found = found.unwrap();
        assert_eq!(found.path.as_deref(), Some("/checkout/src/a b.rs"));
        assert_eq!((found.line, found.end_line), (NonZeroU32::new(3), NonZeroU32::new(5)));
        assert_eq!((found.severity, found.rule.as_deref()), (Severity::Error, Some("R1")));
        assert_eq!(found.text, "x is not y");
        assert_eq!(
            found.fingerprint.as_deref(),
            Some("primaryLocationLineHash:39fa2ee980eb94b0:1")
        );
    }

    #[test]
    fn what_is_not_said_is_as_the_standard_has_it() {
        let message = json!({ "text": "t" });
        let bare = one(json!({ "message": message })).unwrap();
        assert_eq!((bare.severity, bare.rule, bare.path), (Severity::Warning, None, None));
        let by_index = one(json!({ "ruleIndex": 0, "message": message })).unwrap();
        assert_eq!(
            (by_index.severity, by_index.rule.as_deref()),
            (Severity::Error, Some("R1"))
        );
        let below = one(json!({ "ruleId": "R1/2", "message": message })).unwrap();
        assert_eq!((below.severity, below.rule.as_deref()), (Severity::Error, Some("R1/2")));
        for (uri, path) in [
            ("a.rs", Some("a.rs")),
            ("file:///x/a.rs", Some("/x/a.rs")),
            ("file://host/a.rs", Some("/a.rs")),
            ("https://example.org/a.rs", None),
            ("%ff", None),
        ] {
            let location =
                json!({ "physicalLocation": { "artifactLocation": { "uri": uri, "uriBaseId": "SRCROOT" } } });
            let found = one(json!({ "message": message, "locations": [location] })).unwrap();
            assert_eq!(found.path.as_deref(), path, "{uri}");
        }
    }

    #[test]
    fn numbers_that_say_nothing_are_none() {
        let place = json!({ "artifactLocation": { "uri": "a" }, "region": { "startLine": 0 } });
        let result = json!({ "ruleId": "R1", "ruleIndex": -1, "message": { "text": "t" }, "locations": [{ "physicalLocation": place }] });
        let found = one(result).unwrap();
        assert_eq!((found.severity, found.line), (Severity::Error, None));
    }

    /// Arguments that hold each other's places would double with each.
    #[test]
    fn what_an_argument_holds_is_no_place() {
        let arguments: Vec<_> = (1..=40).map(|next| format!("{{{next}}}{{{next}}}")).collect();
        let found = one(json!({ "message": { "text": "{0} {x} {", "arguments": arguments } })).unwrap();
        assert_eq!(found.text, "{1}{1} {x} {");
    }

    #[test]
    fn what_is_no_failure_or_was_accepted_is_none() {
        for quiet in [
            json!({ "kind": "pass" }),
            json!({ "kind": "notApplicable" }),
            json!({ "baselineState": "absent" }),
            json!({ "suppressions": [{ "kind": "inSource" }] }),
            json!({ "suppressions": [{ "kind": "external", "status": "accepted" }] }),
        ] {
            let mut result = json!({ "message": { "text": "t" } });
            result
                .as_object_mut()
                .unwrap()
                .extend(quiet.as_object().unwrap().clone());
            assert_eq!(one(result), None, "{quiet}");
        }
        let rejected = json!({ "message": { "text": "t" }, "suppressions": [{ "status": "rejected" }] });
        assert!(one(rejected).is_some());
    }

    #[test]
    fn a_run_that_failed_is_no_clean_one() {
        let run = json!({ "tool": { "driver": { "name": "lint" } }, "results": null });
        let error = read_json(&json!({ "version": "2.1.0", "runs": [run] })).unwrap_err();
        assert!(error.contains("lint could not look"), "{error}");
        assert!(
            read_json(&json!({ "version": "1.0.0", "runs": [] }))
                .unwrap_err()
                .contains("1.0.0")
        );
        assert!(
            read_json(&json!({ "version": "2.1.0", "runs": [{}] }))
                .unwrap_err()
                .contains("tool")
        );
    }
}
