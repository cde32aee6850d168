//! Reports of tools on their way into a room and out again: read from what tools write, annotated as CI systems read it.

use std::fs;

use parler_harness::{Agent, Repository};
use serde_json::{Value, json};

use super::world;

/// What a text would like to be.
const HOSTILE: &str = "bad\u{1b}[2J\n::error::mine\n]]></failure>|<b>";

fn sarif(line: u32) -> Value {
    let place = json!({ "artifactLocation": { "uri": "new.txt" }, "region": { "startLine": line } });
    json!({ "version": "2.1.0", "runs": [{
        "tool": { "driver": { "name": "lint", "rules": [{ "id": "R1", "defaultConfiguration": { "level": "error" } }] } },
        "results": [{ "ruleId": "R1", "message": { "text": HOSTILE }, "locations": [{ "physicalLocation": place }] }],
    }] })
}

fn post(agent: &Agent<'_>, place: &Repository<'_>, name: &str, report: &str) -> String {
    fs::write(place.path().join(name), report).unwrap();
    let posted = agent.parler(format!(
        "ci post --room build --context lint --status failure --commit HEAD --report {name} --json"
    ));
    posted.success().json()["seq"].to_string()
}

fn annotated(agent: &Agent<'_>, seq: &str, format: &str) -> String {
    let answer = agent.parler(format!("ci annotate {seq} --room build --format {format}"));
    answer.success().out().to_owned()
}

#[test]
fn what_a_tool_found_is_shown_where_a_ci_system_looks() {
    let world = world();
    let origin = world.origin();
    let (place, other) = (world.clone_of(&origin, "place"), world.clone_of(&origin, "other"));
    let (alice, bob) = (world.agent("alice").at(&place), world.agent("bob").at(&other));
    alice.parler("invite --group build").success();
    place.commit("new.txt", "one\nlet a = b;\n");
    let seq = post(&alice, &place, "lint.sarif", &sarif(2).to_string());

    let commands = annotated(&bob, &seq, "github");
    assert_eq!(
        commands,
        "::error file=new.txt,line=2,title=lint%3A R1::bad\\u{1b}[2J%0A::error::mine%0A]]></failure>|<b>\n"
    );
    let issues: Value = serde_json::from_str(&annotated(&bob, &seq, "gitlab")).unwrap();
    assert_eq!(
        issues[0]["location"],
        json!({ "path": "new.txt", "lines": { "begin": 2 } })
    );
    let log: Value = serde_json::from_str(&annotated(&bob, &seq, "sarif")).unwrap();
    assert_eq!(log["runs"][0]["results"][0]["message"]["text"], HOSTILE);
    assert!(annotated(&bob, &seq, "junit").contains("failures=\"1\""));

    // The step's summary grows beside the commands, and a file takes what stdout would.
    let (summary, file) = (world.path().join("summary.md"), world.path().join("out.json"));
    fs::write(&summary, "before\n").unwrap();
    let step = bob.with("GITHUB_STEP_SUMMARY", &summary);
    annotated(&step, &seq, "github");
    let page = fs::read_to_string(&summary).unwrap();
    assert!(
        page.starts_with("before\n") && page.contains("### lint: failure"),
        "{page}"
    );
    assert!(!page.contains("<b>") && !page.contains('\u{1b}'), "{page}");
    let file_name = file.to_str().unwrap();
    let written = bob.parler([
        "ci", "annotate", &seq, "--room", "build", "--format", "gitlab", "-o", file_name,
    ]);
    written.success().says("1 finding in ");
    assert_eq!(
        serde_json::from_slice::<Value>(&fs::read(&file).unwrap()).unwrap(),
        issues
    );

    // All that was said of a commit, the newest of each context.
    let other = "ci post --room build --context test --status success --commit HEAD";
    alice.parler(other).success();
    let all = place.user().git("rev-parse HEAD").success().word().to_owned();
    let of_commit = format!("ci annotate --commit {all} --room build --format junit");
    let suites = bob.parler(of_commit).success();
    suites.says("<testsuite name=\"lint\"").says("<testsuite name=\"test\"");
    bob.parler("ci annotate --room build --format junit").code(3);

    // In the next commit the line is another one, and the finding the same.
    place.commit("new.txt", "zero\none\n  let a = b;\n");
    let moved = post(&alice, &place, "lint.sarif", &sarif(3).to_string());
    let moved: Value = serde_json::from_str(&annotated(&bob, &moved, "gitlab")).unwrap();
    assert_eq!(moved[0]["fingerprint"], issues[0]["fingerprint"]);
    assert_eq!(moved[0]["location"]["lines"]["begin"], 3);
}

#[test]
fn what_a_test_runner_writes_is_a_report() {
    let world = world();
    let place = world.clone_of(&world.origin(), "place");
    let alice = world.agent("alice").at(&place);
    alice.parler("invite --group build").success();
    place.commit("test_a.py", "def test_one():\n    assert 1 == 2\n");
    let report = r#"<testsuites><testsuite name="pytest"><testcase classname="test_a" name="test_one" file="test_a.py" line="1">
        <failure message="assert 1 == 2">def test_one()</failure></testcase><testcase name="test_two"/></testsuite></testsuites>"#;
    let seq = post(&alice, &place, "junit.xml", report);
    let shown = alice.parler(format!("show {seq} --room build")).success();
    shown
        .says("2 tests, 1 failed")
        .says("test_a.py:1")
        .says("assert 1 == 2");
    let again = annotated(&alice, &seq, "junit");
    assert!(again.contains("test_a.test_one"), "{again}");
}

#[test]
fn what_cannot_be_annotated_or_read_is_named() {
    let world = world();
    let place = world.clone_of(&world.origin(), "place");
    let alice = world.agent("alice").at(&place);
    alice.parler("invite --group build").success();
    alice.parler("send --room build hello").success();
    let refused = |line: &str, code: i32, says: &str| {
        let answer = alice.parler(format!("ci annotate {line} --room build")).code(code);
        assert!(answer.one_error_line().contains(says), "{line}: {}", answer.err());
    };
    refused("1 --format github", 3, "says nothing of a commit");
    refused("7 --format github", 3, "no message 7");
    refused("x --format github", 2, "x");
    refused("1 --format html", 2, "html");
    for (report, says) in [
        ("<testsuite>", "never closed"),
        ("{\"version\": \"1.0.0\", \"runs\": []}", "SARIF 1.0.0"),
        (
            "{\"version\": \"2.1.0\", \"runs\": [{\"tool\": {\"driver\": {\"name\": \"lint\"}}}]}",
            "lint could not look",
        ),
    ] {
        fs::write(place.path().join("report"), report).unwrap();
        let post = "ci post --room build --context lint --status failure --commit HEAD --report report";
        let answer = alice.parler(post).code(2);
        assert!(answer.one_error_line().contains(says), "{}", answer.err());
    }
}
