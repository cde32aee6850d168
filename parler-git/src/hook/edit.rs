//! JSON files of others, comments and all, edited where it has to be and nowhere else: what is put in can be taken out
//! again, and the rest stays byte for byte. Reads and writes no file.
//!
//! What is put in says by its form whether the list around it was there: in a list of ours it begins on a line of its own,
//! in one that was empty it follows the bracket at once. So taking it out knows what to leave.

use std::fmt;
use std::ops::Range;

use jsonc_parser::ast::{Array, Object, ObjectProp, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;

/// How far what is of ours is moved in, where the file shows no other habit.
const INDENT: &str = "  ";

/// Why a file is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EditError {
    line: usize,
    what: String,
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// One thing that is to be in a list of the file, such as that of `hooks.Stop`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// The names that lead to the list.
    pub(crate) path: [&'static str; 2],
    pub(crate) value: Value,
}

/// The file with all of these in it; those that are there already stay as they are.
///
/// # Errors
/// Where it is no JSON, or something else stands where a list of them would.
pub(crate) fn insert(text: &str, entries: &[Entry]) -> Result<String, EditError> {
    edit(text, entries.iter(), insert_one)
}

/// The file without these.
///
/// # Errors
/// Where it is no JSON.
pub(crate) fn remove(text: &str, entries: &[Entry]) -> Result<String, EditError> {
    edit(text, entries.iter().rev(), remove_one)
}

/// Whether hooks of this file run this program in another form than these.
pub(crate) fn has_more(text: &str, entries: &[Entry]) -> bool {
    let rest = remove(text, entries).unwrap_or_default();
    root(&rest).is_ok_and(|root| {
        root.get("hooks")
            .is_some_and(|hooks| rest[hooks.value.start()..hooks.value.end()].contains("git-parler"))
    })
}

/// A file that holds these and, before them, what every such file says.
pub(crate) fn whole(preamble: &[(&str, Value)], entries: &[Entry]) -> String {
    let mut text = String::from("{\n");
    for (name, value) in preamble {
        text.push_str(&format!("{INDENT}\"{name}\": {value},\n"));
    }
    let first = &entries[0];
    let lists = nested(&first.path[1..], &first.value, INDENT, INDENT, "\n");
    text.push_str(&format!("{INDENT}\"{}\": {lists}\n}}\n", first.path[0]));
    // What was just written is an object with a list in an object.
    insert(&text, entries).unwrap_or(text)
}

fn edit<'e>(
    text: &str,
    entries: impl Iterator<Item = &'e Entry>,
    one: impl Fn(&str, &Entry) -> Result<Option<String>, EditError>,
) -> Result<String, EditError> {
    let mut text = text.to_owned();
    for entry in entries {
        if let Some(edited) = one(&text, entry)? {
            // Whatever somebody may have written around it: a file that no host reads is not left behind.
            root(&edited)?;
            text = edited;
        }
    }
    Ok(text)
}

/// The object that the file is.
fn root(text: &str) -> Result<Object<'_>, EditError> {
    let options = ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
        ..ParseOptions::default()
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options).map_err(|error| EditError {
        line: error.line_display(),
        what: error.kind().to_string(),
    })?;
    match parsed.value {
        Some(Node::Object(object)) => Ok(object),
        Some(other) => Err(unfit(text, other.start(), "an object")),
        None => Err(unfit(text, 0, "an object")),
    }
}

fn unfit(text: &str, at: usize, expected: &str) -> EditError {
    let line = 1 + text[..at].matches('\n').count();
    EditError {
        line,
        what: format!("{expected} is expected here"),
    }
}

fn insert_one(text: &str, entry: &Entry) -> Result<Option<String>, EditError> {
    let root = root(text)?;
    let [outer, inner] = entry.path;
    let mut same = root.properties.iter().filter(|member| member.name.as_str() == outer);
    if let Some(second) = same.nth(1) {
        // Readers take the last.
        return Err(unfit(text, second.value.start(), "only one of this name"));
    }
    let Some(object) = root.get(outer) else {
        return Ok(Some(with_member(
            text,
            &Container::of(&root),
            &entry.path,
            &entry.value,
        )));
    };
    let Node::Object(object) = &object.value else {
        return Err(unfit(text, object.value.start(), "an object"));
    };
    let Some(list) = object.get(inner) else {
        let path = &entry.path[1..];
        return Ok(Some(with_member(text, &Container::of(object), path, &entry.value)));
    };
    let Node::Array(list) = &list.value else {
        return Err(unfit(text, list.value.start(), "a list"));
    };
    if position(text, list, &entry.value).is_some() {
        return Ok(None);
    }
    Ok(Some(with_member(text, &Container::of_list(list), &[], &entry.value)))
}

/// Where in a list this stands.
fn position(text: &str, list: &Array<'_>, value: &Value) -> Option<usize> {
    let is_it = |element: &Node<'_>| {
        let element = serde_json::from_str::<Value>(&text[element.start()..element.end()]);
        element.is_ok_and(|element| element == *value)
    };
    list.elements.iter().position(is_it)
}

/// What an object or a list is in the text.
struct Container {
    /// With its brackets.
    range: Range<usize>,
    members: Vec<Range<usize>>,
}

impl Container {
    fn of(object: &Object<'_>) -> Self {
        Self {
            range: object.start()..object.end(),
            members: object
                .properties
                .iter()
                .map(|member| member.start()..member.end())
                .collect(),
        }
    }

    fn of_list(list: &Array<'_>) -> Self {
        Self {
            range: list.start()..list.end(),
            members: list
                .elements
                .iter()
                .map(|member| member.start()..member.end())
                .collect(),
        }
    }

    /// Whether it has a line of its own for each member, as what we make has.
    fn has_lines(&self, text: &str) -> bool {
        let inside = &text[self.range.start + 1..];
        inside.starts_with('\n') || inside.starts_with("\r\n")
    }
}

/// The text with a new member at the end of a container: a value, below the names that are still missing.
fn with_member(text: &str, container: &Container, names: &[&str], value: &Value) -> String {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let Some(last) = container.members.last() else {
        let member = match names {
            [] => value.to_string(),
            names => {
                let indent = line_indent(text, container.range.start);
                let below = nested(&names[1..], value, &indent, INDENT, newline);
                format!("{}: {below}", Value::from(names[0]))
            }
        };
        return splice(text, &[(container.range.start + 1..container.range.start + 1, &member)]);
    };
    let gap = Gap::between(text, last.end, container.range.end - 1);
    let has_lines = container.has_lines(text) || text[last.end..gap.line_end].contains("//");
    let outer = line_indent(text, container.range.start);
    let own = match text[..last.start].rfind('\n') {
        Some(_) if container.has_lines(text) => line_indent(text, container.members[0].start),
        _ => format!("{outer}{INDENT}"),
    };
    let unit = own
        .strip_prefix(outer.as_str())
        .filter(|unit| !unit.is_empty())
        .unwrap_or(INDENT);
    let member = match names.split_first() {
        None => value.to_string(),
        Some((name, names)) => format!("{}: {}", Value::from(*name), nested(names, value, &own, unit, newline)),
    };
    let before = match has_lines {
        true => format!("{newline}{own}"),
        false => " ".to_owned(),
    };
    match gap.comma {
        // Where each member has one, so has ours.
        Some(comma) => {
            // The comma may stand on a later line.
            let at = gap.line_end.max(comma + 1);
            splice(text, &[(at..at, &format!("{before}{member},"))])
        }
        None => splice(
            text,
            &[
                (last.end..last.end, ","),
                (gap.line_end..gap.line_end, &format!("{before}{member}")),
            ],
        ),
    }
}

/// A list of this value, or an object with one, on lines of their own.
fn nested(names: &[&str], value: &Value, indent: &str, unit: &str, newline: &str) -> String {
    let inner = format!("{indent}{unit}");
    match names.split_first() {
        None => format!("[{newline}{inner}{value}{newline}{indent}]"),
        Some((name, names)) => {
            let below = nested(names, value, &inner, unit, newline);
            format!("{{{newline}{inner}{}: {below}{newline}{indent}}}", Value::from(*name))
        }
    }
}

fn remove_one(text: &str, entry: &Entry) -> Result<Option<String>, EditError> {
    let root = root(text)?;
    let [outer, inner] = entry.path;
    let Some((outer_at, object)) = member(&root, outer) else {
        return Ok(None);
    };
    let Node::Object(object) = &object.value else {
        return Ok(None);
    };
    let Some((inner_at, list)) = member(object, inner) else {
        return Ok(None);
    };
    let Node::Array(list) = &list.value else {
        return Ok(None);
    };
    let Some(at) = position(text, list, &entry.value) else {
        return Ok(None);
    };
    let list = Container::of_list(list);
    if !is_ours_alone(text, &list) {
        return Ok(Some(without_member(text, &list, at)));
    }
    let object = Container::of(object);
    if !is_ours_alone(text, &object) {
        return Ok(Some(without_member(text, &object, inner_at)));
    }
    Ok(Some(without_member(text, &Container::of(&root), outer_at)))
}

fn member<'o, 't>(object: &'o Object<'t>, name: &str) -> Option<(usize, &'o ObjectProp<'t>)> {
    let mut members = object.properties.iter().enumerate();
    members.find(|(_, member)| member.name.as_str() == name)
}

/// Whether a container was made for its one member, and nobody has put anything else there.
fn is_ours_alone(text: &str, container: &Container) -> bool {
    let [only] = container.members.as_slice() else {
        return false;
    };
    let around = [
        &text[container.range.start + 1..only.start],
        &text[only.end..container.range.end - 1],
    ];
    container.has_lines(text) && around.iter().all(|around| around.trim().is_empty())
}

/// The text without one member of a container, and without the comma that it needed.
fn without_member(text: &str, container: &Container, at: usize) -> String {
    let own = &container.members[at];
    let next = container
        .members
        .get(at + 1)
        .map_or(container.range.end - 1, |next| next.start);
    let before = container.range.start + 1..own.start;
    let blank = text[before.clone()].len() - text[before].trim_end().len();
    // Alone in a container that was there: nothing was put in but itself.
    let blank = if container.members.len() == 1 && !container.has_lines(text) {
        0
    } else {
        blank
    };
    let begin = own.start - blank;
    let comma_behind = Gap::between(text, own.end, next).comma;
    let is_followed = comma_behind.is_some_and(|comma| text[comma + 1..next].trim().is_empty());
    if at == 0 && is_followed && !container.has_lines(text) {
        return splice(text, &[(own.start..next, "")]);
    }
    let previous = at.checked_sub(1).map(|previous| &container.members[previous]);
    let comma_before = previous.and_then(|previous| Gap::between(text, previous.end, own.start).comma);
    match (comma_behind, comma_before) {
        (Some(comma), _) => {
            let cut = splice(
                text,
                &[
                    (own.end..comma, ""),
                    (comma..comma + 1, ""),
                    (begin..own.start, ""),
                    (own.clone(), ""),
                ],
            );
            let since = previous.map_or(container.range.start + 1, |previous| previous.end);
            keep_comment_apart(text, since..begin, comma + 1, cut)
        }
        (None, Some(comma)) => splice(text, &[(comma..comma + 1, ""), (begin..own.end, "")]),
        (None, None) => splice(text, &[(begin..own.end, "")]),
    }
}

/// Puts the end of a line back where a comment to the end of its line came before what was cut, and something else follows.
fn keep_comment_apart(text: &str, before: Range<usize>, end: usize, cut: String) -> String {
    let begin = before.end;
    let line = text[before].rsplit('\n').next().unwrap_or_default();
    let follows = text[end..].chars().next();
    let is_apart = follows.is_none_or(|follows| follows == '\n' || follows == '\r');
    match line.contains("//") && !is_apart {
        true => format!("{}\n{}", &cut[..begin], &cut[begin..]),
        false => cut,
    }
}

/// What stands between two members, or behind the last: blanks, comments, a comma perhaps.
struct Gap {
    comma: Option<usize>,
    /// Behind the last of it on the line where it begins.
    line_end: usize,
}

impl Gap {
    fn between(text: &str, start: usize, end: usize) -> Self {
        let mut gap = Self {
            comma: None,
            line_end: start,
        };
        let (mut at, mut is_first_line) = (start, true);
        while at < end {
            let rest = &text[at..end];
            let length = if rest.starts_with("//") {
                rest.find('\n')
                    .map_or(rest.len(), |end| rest[..end].trim_end_matches('\r').len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            } else {
                rest.chars().next().map_or(1, char::len_utf8)
            };
            let piece = &rest[..length];
            if piece == "," && gap.comma.is_none() {
                gap.comma = Some(at);
            }
            at += length;
            is_first_line &= !piece.contains('\n');
            if is_first_line && !piece.trim().is_empty() {
                gap.line_end = at;
            }
        }
        gap
    }
}

/// The blanks that the line of this place begins with.
fn line_indent(text: &str, at: usize) -> String {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let is_blank = |character: &char| matches!(character, ' ' | '\t');
    text[line..].chars().take_while(is_blank).collect()
}

/// The text with these places, which do not overlap, replaced.
fn splice(text: &str, changes: &[(Range<usize>, &str)]) -> String {
    let mut changes: Vec<_> = changes.iter().collect();
    changes.sort_by_key(|(range, _)| range.start);
    let (mut out, mut at) = (String::with_capacity(text.len() + 512), 0);
    for (range, replacement) in changes {
        out.push_str(&text[at..range.start]);
        out.push_str(replacement);
        at = range.end;
    }
    out.push_str(&text[at..]);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entries() -> Vec<Entry> {
        let entry = |list: &'static str, command: &str| Entry {
            path: ["hooks", list],
            value: json!({ "hooks": [{ "type": "command", "command": command }] }),
        };
        vec![entry("SessionStart", "start"), entry("Stop", "stop")]
    }

    /// The value that a file is, read by another parser's rules: comments and commas that JSON does not have are ours to drop.
    fn value(text: &str) -> Value {
        fn of(node: &Node<'_>) -> Value {
            match node {
                Node::Object(object) => {
                    let members = object.properties.iter();
                    Value::Object(
                        members
                            .map(|member| (member.name.as_str().to_owned(), of(&member.value)))
                            .collect(),
                    )
                }
                Node::Array(list) => list.elements.iter().map(of).collect(),
                Node::StringLit(text) => json!(text.value),
                Node::NumberLit(number) => serde_json::from_str(number.value).unwrap(),
                Node::BooleanLit(is) => json!(is.value),
                Node::NullKeyword(_) => Value::Null,
            }
        }
        of(&Node::Object(root(text).unwrap()))
    }

    const FILES: &[&str] = &[
        "{}",
        "{ \"hooks\": { // none\n } }\n",
        "{\"hooks\":{/* c */}}",
        "{\"url\":\"https://x\",}",
        "{\n  \"a\": 1\n  ,\n}",
        "{}\n",
        "{ }",
        "{\n}\n",
        "{ // nothing yet\n}",
        "{\n  // nothing yet\n}\n",
        "{\"a\":1}",
        "{ \"a\": 1 }",
        "{\n  \"a\": 1\n}\n",
        "{\n  \"a\": 1,\n}\n",
        "{\n\t\"a\": 1, // the first\n\t/* and\n\tmore */\n}\n",
        "{\n  \"a\": 1 // the first\n}\n",
        "{ \"a\": 1 // the first\n}\n",
        "{\r\n    \"a\": [1, 2],\r\n    \"b\": {}\r\n}\r\n",
        "{\"hooks\":{}}",
        "{\n  \"hooks\": {\n  }\n}\n",
        "{\"hooks\":{\"Stop\":[]}}",
        "{\n  \"hooks\": {\n    \"Stop\": [\n    ]\n  }\n}",
        "{\n  \"hooks\": {\n    \"Stop\": [ /* mine */ ],\n    \"Other\": []\n  },\n  \"z\": null\n}",
        "{\n  \"hooks\": {\n    \"Stop\": [\n      {\"hooks\": [{\"command\": \"mine // not a comment\"}]} // keep\n    ]\n  }\n}\n",
        "{\n  \"hooks\": {\n    \"Stop\": [\n      { \"hooks\": [] }, // keep\n      // and this\n    ],\n  },\n}\n",
        "{\"hooks\": {\"Stop\": [{\"a\": 1}], \"SessionStart\": [1,]}, \"b\": \"\\u007d\"}",
        "/* before */ {\n  \"hooks\": { \"Stop\": [ 1, 2 /* two */ ] }\n} // after\n",
    ];

    #[test]
    fn what_is_put_in_is_taken_out_byte_for_byte() {
        for file in FILES {
            let installed = insert(file, &entries()).unwrap_or_else(|error| panic!("{file}: {error}"));
            let read = value(&installed);
            for entry in entries() {
                let list = read["hooks"][entry.path[1]].as_array().unwrap();
                assert_eq!(
                    list.iter().filter(|value| **value == entry.value).count(),
                    1,
                    "{file}\n{installed}"
                );
            }
            assert_eq!(insert(&installed, &entries()).unwrap(), installed, "{file}");
            assert_eq!(remove(&installed, &entries()).unwrap(), *file, "{installed}");
            // In another order, too.
            let mut backwards = entries();
            backwards.reverse();
            assert_eq!(
                value(&remove(&installed, &backwards).unwrap()),
                value(file),
                "{installed}"
            );
            assert_eq!(remove(file, &entries()).unwrap(), *file);
        }
    }

    #[test]
    fn what_others_put_beside_it_stays() {
        for file in FILES {
            let installed = insert(file, &entries()).unwrap();
            let more = Entry {
                path: ["hooks", "Stop"],
                value: json!({ "hooks": [{ "command": "theirs" }] }),
            };
            let with_more = insert(&installed, std::slice::from_ref(&more)).unwrap();
            let left = remove(&with_more, &entries()).unwrap();
            assert_eq!(
                value(&left),
                value(&insert(file, &[more]).unwrap()),
                "{with_more}\n{left}"
            );
        }
    }

    #[test]
    fn a_whole_file_has_them_all() {
        let text = whole(&[("version", json!(1))], &entries());
        let expected = r#"{
  "version": 1,
  "hooks": {
    "SessionStart": [
      {"hooks":[{"command":"start","type":"command"}]}
    ],
    "Stop": [
      {"hooks":[{"command":"stop","type":"command"}]}
    ]
  }
}
"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn a_file_that_is_none_is_refused_with_its_line() {
        for (file, line) in [
            ("", 1),
            ("{\n  \"a\": 1\n  \"b\": 2\n}", 2),
            ("{\n\n  'a': 1\n}", 3),
            ("[]", 1),
            ("{\n  \"hooks\": []\n}", 2),
            ("{\n  \"hooks\": {\n    \"SessionStart\": {}\n  }\n}", 3),
            ("{\n  \"a\": NaN\n}", 2),
        ] {
            let refused = insert(file, &entries()).unwrap_err();
            assert_eq!(refused.line, line, "{file}: {refused}");
        }
    }
}
