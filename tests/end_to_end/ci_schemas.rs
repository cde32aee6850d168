//! What `git parler ci annotate` writes, against the schemas of those who read it: of texts that would like to be more than that, and
//! of every status.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use parler_harness::{Agent, World};
use serde_json::{Value, json};

use super::world;

/// Everything that a finding may be, in every place that it may be in.
fn report() -> Value {
    let hostile =
        "50% off\r\n::error::mine\n]]></failure><b>|`\"}]\u{1b}[2J\u{202e} ##[add-mask]x \u{ffff}\u{fffe} é 漢";
    json!({ "version": 1, "summary": hostile, "findings": [
        { "path": "src/a b:c,d [é].rs", "line": 1, "endLine": 2, "severity": "error", "rule": hostile, "text": hostile, "fingerprint": "f1" },
        { "path": "src/a b:c,d [é].rs", "severity": "warning", "text": "so so" },
        { "path": "src/a b:c,d [é].rs", "severity": "warning", "text": "so so" },
        { "severity": "note", "text": "by the way" },
    ] })
}

/// An agent in a room where a commit has a status of every kind, one of them with findings.
fn reviewed(world: &World) -> Agent<'_> {
    let place = world.clone_of(&world.origin(), "place");
    let alice = world.agent("alice").at(&place).with("PARLER_ROOM", "build");
    alice.parler("invite --group build").success();
    place.commit("src/a b:c,d [é].rs", "one\ntwo\n");
    fs::write(place.path().join("report.json"), report().to_string()).unwrap();
    for status in ["pending", "success", "failure", "error", "neutral"] {
        let post = format!("ci post --context {status} --status {status} --commit HEAD --summary said");
        alice.parler(post).success();
    }
    let post =
        "ci post --context lint --status failure --commit HEAD --report report.json --url https://ci.example/a?b=[c]|d";
    alice.parler(post).success().warns_no("without a place");
    alice
}

fn annotated(agent: &Agent<'_>, format: &str) -> String {
    let told = agent.parler(format!("ci annotate --format {format}")).success();
    told.out().to_owned()
}

/// The directory of a package that cargo has fetched to build this.
fn package(name: &str) -> PathBuf {
    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        let answer = cargo
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(answer.status.success(), "{answer:?}");
        String::from_utf8(answer.stdout).unwrap()
    };
    let version = cargo(&["-vV"]);
    // Of other machines' packages not all are here.
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let format = ["metadata", "--format-version", "1", "--locked", "--offline"];
    let told: Value = serde_json::from_str(&cargo(&[&format[..], &["--filter-platform", host]].concat())).unwrap();
    let mut packages = told["packages"].as_array().unwrap().iter();
    let package = packages.find(|package| package["name"] == name).unwrap();
    Path::new(package["manifest_path"].as_str().unwrap())
        .parent()
        .unwrap()
        .to_owned()
}

/// The schema of OASIS, as the package of its types has it.
#[test]
fn sarif_is_valid_by_the_standards_schema() {
    let schema = fs::read_to_string(package("serde-sarif").join("src/schema.json")).unwrap();
    let mut schema: Value = serde_json::from_str(&schema).unwrap();
    // Of a field that is never written: no regular expression by those who read schemas today.
    for holder in ["run", "toolComponent"] {
        let language = format!("/definitions/{holder}/properties/language");
        let language = schema.pointer_mut(&language).unwrap().as_object_mut().unwrap();
        language.remove("pattern").unwrap();
    }
    assert_eq!(schema["properties"]["version"]["enum"], json!(["2.1.0"]));
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap();
    let world = world();
    let log: Value = serde_json::from_str(&annotated(&reviewed(&world), "sarif")).unwrap();
    let flaws: Vec<_> = validator.iter_errors(&log).map(|flaw| flaw.to_string()).collect();
    assert_eq!(flaws, [""; 0]);
    let results: Vec<_> = log["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["results"].as_array().unwrap().len())
        .collect();
    assert_eq!(results, [0, 0, 3, 0, 0, 0], "of lint alone");
}

/// No package carries GitLab's schema. The rules are those of its "Code Quality" page, "Code Quality report format", for what it shows;
/// by what GitLab refuses a report itself, `app/validators/json_schemas/codeclimate.json` of its source, they are stricter.
#[test]
fn a_code_quality_report_is_as_gitlab_documents_it() {
    let text = json!({ "type": "string", "minLength": 1 });
    let line = json!({ "type": "integer", "minimum": 1 });
    let schema = json!({ "type": "array", "items": {
        "type": "object", "required": ["description", "check_name", "fingerprint", "severity", "location"], "additionalProperties": false,
        "properties": {
            "description": text, "check_name": text, "fingerprint": text,
            "severity": { "enum": ["info", "minor", "major", "critical", "blocker"] },
            "location": { "type": "object", "required": ["path", "lines"], "additionalProperties": false, "properties": {
                // Relative, without `./` in front.
                "path": { "type": "string", "pattern": "^[^/.]" },
                "lines": { "type": "object", "required": ["begin"], "additionalProperties": false, "properties": { "begin": line, "end": line } },
            } },
        },
    } });
    let world = world();
    let issues: Value = serde_json::from_str(&annotated(&reviewed(&world), "gitlab")).unwrap();
    jsonschema::validate(&schema, &issues).unwrap();
    let issues = issues.as_array().unwrap();
    let mut prints: Vec<_> = issues
        .iter()
        .map(|issue| issue["fingerprint"].as_str().unwrap())
        .collect();
    prints.sort_unstable();
    prints.dedup();
    assert_eq!(
        (issues.len(), prints.len()),
        (3, 3),
        "each has a fingerprint of its own"
    );
}

/// The schema of Jenkins' xUnit plugin, by which pytest checks what it writes and whose source brings it; with three attributes more:
/// `file`, which GitLab shows, and `line` of a test, as pytest's older form has them, and how many were skipped in all.
#[test]
#[ignore = "needs what the Python index has: PARLER_JUNIT_SCHEMA is junit-10.xsd, PARLER_XML_VALIDATOR the program xmlschema-validate"]
fn junit_is_taken_by_others_by_jenkins_schema() {
    let given = |name: &str| std::env::var_os(name).unwrap_or_else(|| panic!("{name} is set"));
    let mut schema = fs::read_to_string(given("PARLER_JUNIT_SCHEMA")).unwrap();
    let attribute = |name: &str| format!("<xs:attribute name=\"{name}\" type=\"xs:string\"/>");
    for (element, names) in [("testcase", &["file", "line"][..]), ("testsuites", &["skipped"])] {
        let begin = schema.find(&format!("<xs:element name=\"{element}\">")).unwrap();
        let end = begin + schema[begin..].find("</xs:complexType>").unwrap();
        let more: String = names.iter().map(|name| attribute(name)).collect();
        schema.insert_str(end, &more);
    }
    let world = world();
    let alice = reviewed(&world);
    let (schema_file, file) = (world.path().join("junit.xsd"), world.path().join("report.xml"));
    fs::write(&schema_file, schema).unwrap();
    let validate = |text: &str| {
        fs::write(&file, text).unwrap();
        let arguments = ["-v", "--schema", schema_file.to_str().unwrap(), file.to_str().unwrap()];
        alice.run(given("PARLER_XML_VALIDATOR"), arguments).either()
    };
    let report = annotated(&alice, "junit");
    for word in [
        "<skipped",
        "<error",
        "<failure",
        "file=\"src/a b:c,d [é].rs\" line=\"1\"",
    ] {
        assert!(report.contains(word), "{word}: {report}");
    }
    let answer = validate(&report);
    assert!(answer.is_success(), "{answer:?}\n{report}");
    // It looks.
    assert!(!validate(&report.replacen("<testcase name=", "<testcase nom=", 1)).is_success());
}
