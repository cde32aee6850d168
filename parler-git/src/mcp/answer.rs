//! What a verb answered, made small enough for an agent's turn: long texts are cut, of long lists what is left out is counted.

use std::process::Output;

use serde_json::{Map, Value, json};

use super::tools::Call;
use crate::visible_json;

/// Most characters of an answer. Hosts warn at 10,000 tokens and cut at 25,000.
const MOST_CHARACTERS: usize = 30_000;
/// Longest text that is shown whole while there is room for others, in characters.
const MOST_OF_TEXT: usize = 12_000;
/// Shortest to which texts are cut so that more of them have room.
const LEAST_OF_TEXT: usize = 200;
/// Longest list inside of the items of another while there is too much, such as the refs of a push.
const LONGEST_INSIDE: usize = 10;
/// Most lines of what a verb says on the side, and most characters of each.
const MOST_NOTES: usize = 20;
const MOST_OF_NOTE: usize = 500;
/// The list that begins with the oldest.
const OLDEST_FIRST: &str = "messages";

/// The answer, and whether it is that of a failure.
pub(super) fn of(call: &Call, ran: &Output) -> (Value, bool) {
    let told: Option<Value> = serde_json::from_slice(&ran.stdout).ok();
    let code = ran.status.code();
    let is_nothing = call.may_come_to_nothing && code == Some(3);
    let is_error = code != Some(0) && !is_nothing;
    let mut answer = match told {
        Some(Value::Object(answer)) => answer,
        Some(other) => Map::from_iter([("result".to_owned(), other)]),
        None => Map::new(),
    };
    if call.may_come_to_nothing {
        answer.insert("timedOut".to_owned(), is_nothing.into());
    }
    let notes = notes(&ran.stderr, is_error || is_nothing);
    if !notes.is_empty() {
        answer.insert("notes".to_owned(), notes.into());
    }
    if is_error && answer.is_empty() {
        let what = format!("git parler {} ended without a word, with {}", call.verb, ran.status);
        answer.insert("error".to_owned(), json!({ "message": what }));
    }
    (bounded(answer, MOST_CHARACTERS), is_error)
}

/// What was said on stderr, without the line that tells a failure, which the answer has.
fn notes(stderr: &[u8], failed: bool) -> Vec<String> {
    let text = String::from_utf8_lossy(stderr);
    let mut lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if failed {
        lines.pop();
    }
    let beginning = |line: &str| line.chars().take(MOST_OF_NOTE).collect::<String>();
    let newest = lines.len().saturating_sub(MOST_NOTES);
    lines[newest..].iter().map(|line| beginning(line)).collect()
}

/// An object of at most about so many characters: first long texts are cut, then the longest lists lose their ends, as far as
/// that goes.
fn bounded(answer: Map<String, Value>, most: usize) -> Value {
    let mut answer = Value::Object(answer);
    let mut left_out = Map::new();
    let mut longest = MOST_OF_TEXT;
    let mut is_short_inside = false;
    if size(&answer) > most {
        cut_texts(&mut answer, longest);
    }
    while size(&answer) > most {
        if longest > LEAST_OF_TEXT {
            longest = (longest / 2).max(LEAST_OF_TEXT);
            // The first of what is for this agent stays as it is, as long as it alone is not too much.
            cut_texts_behind_the_first(&mut answer, longest);
            continue;
        }
        if !std::mem::replace(&mut is_short_inside, true) {
            shorten_inside(&mut answer);
            continue;
        }
        match shorten_longest_list(&mut answer) {
            Some((name, count)) => {
                let before = left_out.get(&name).and_then(Value::as_u64).unwrap_or(0);
                left_out.insert(name, (before + count).into());
            }
            None => {
                cut_texts(&mut answer, LEAST_OF_TEXT);
                break;
            }
        }
    }
    if !left_out.is_empty() {
        left_out.insert("read".to_owned(), "recv with since, or show".into());
        answer["leftOut"] = Value::Object(left_out);
    }
    answer
}

fn size(value: &Value) -> usize {
    // As it is written: hidden characters take more room than they have.
    visible_json::to_string(value).map_or(0, |text| text.chars().count())
}

fn cut_texts(value: &mut Value, most: usize) {
    match value {
        Value::String(text) => cut(text, most),
        Value::Array(items) => items.iter_mut().for_each(|item| cut_texts(item, most)),
        Value::Object(fields) => fields.values_mut().for_each(|field| cut_texts(field, most)),
        _ => {}
    }
}

/// As [`cut_texts`], but for the newest handoff, for which there is the answer.
fn cut_texts_behind_the_first(answer: &mut Value, most: usize) {
    let Value::Object(fields) = answer else { return };
    for (name, field) in fields {
        match field {
            Value::Array(items) if name == "handoffs" => {
                items.iter_mut().skip(1).for_each(|item| cut_texts(item, most))
            }
            other => cut_texts(other, most),
        }
    }
}

fn cut(text: &mut String, most: usize) {
    if let Some((end, _)) = text.char_indices().nth(most) {
        let more = text[end..].chars().count();
        text.truncate(end);
        text.push_str(&format!("… {more} characters more"));
    }
}

/// Shortens the lists inside of the items of others.
fn shorten_inside(answer: &mut Value) {
    let Value::Object(fields) = answer else { return };
    for field in fields.values_mut() {
        match field {
            Value::Array(items) => items.iter_mut().for_each(shorten_lists),
            other => shorten_lists(other),
        }
    }
}

fn shorten_lists(value: &mut Value) {
    match value {
        Value::Array(items) => {
            let more = items.len().saturating_sub(LONGEST_INSIDE);
            items.truncate(LONGEST_INSIDE);
            items.iter_mut().for_each(shorten_lists);
            if more > 0 {
                items.push(format!("… {more} more").into());
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(shorten_lists),
        _ => {}
    }
}

/// Takes half of the longest list away, and says which and how many. None: there is none of more than one.
fn shorten_longest_list(answer: &mut Value) -> Option<(String, u64)> {
    let Value::Object(fields) = answer else { return None };
    let lists = fields.iter().filter_map(|(name, field)| {
        let items = field.as_array().filter(|items| items.len() > 1)?;
        Some((items.iter().map(size).sum::<usize>(), name.clone()))
    });
    let (_, name) = lists.max()?;
    let items = fields.get_mut(&name)?.as_array_mut()?;
    let half = items.len() / 2;
    match name == OLDEST_FIRST {
        true => drop(items.drain(..half)),
        false => items.truncate(items.len() - half),
    }
    Some((name, half as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(value: Value) -> Value {
        let Value::Object(fields) = value else {
            panic!("{value}")
        };
        bounded(fields, MOST_CHARACTERS)
    }

    #[test]
    fn a_backlog_fits_and_what_is_left_out_is_counted() {
        let message = |seq: u64| json!({ "seq": seq, "parts": [{ "kind": "text", "text": "x".repeat(10_000) }] });
        let messages: Vec<_> = (1..=1000).map(message).collect();
        let next = "n".repeat(MOST_OF_TEXT);
        let answer = answer(json!({ "handoffs": [{ "seq": 5, "next": next }], "messages": messages, "cursor": 1000 }));
        assert!(size(&answer) <= MOST_CHARACTERS + 100, "{}", size(&answer));
        assert_eq!(answer["handoffs"][0]["next"], next);
        let shown = answer["messages"].as_array().unwrap();
        assert_eq!(shown.last().unwrap()["seq"], 1000);
        assert_eq!(answer["leftOut"]["messages"], 1000 - shown.len() as u64);
        assert_eq!(answer["cursor"], 1000);
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let value = json!({ "handoffs": [], "messages": [{ "seq": 1 }], "cursor": null });
        assert_eq!(answer(value.clone()), value);
    }

    #[test]
    fn one_text_that_is_too_long_is_cut_and_says_so() {
        let answer = answer(json!({ "messages": [{ "parts": [{ "text": "é".repeat(1_000_000) }] }] }));
        let text = answer["messages"][0]["parts"][0]["text"].as_str().unwrap();
        assert!(
            text.ends_with("… 988000 characters more"),
            "{}",
            &text[text.len() - 40..]
        );
    }

    #[test]
    fn hidden_characters_and_long_lists_inside_count_as_they_are_written() {
        let refs: Vec<_> = (0..1500)
            .map(|number| json!({ "name": format!("refs/tags/v{number}") }))
            .collect();
        let message = json!({ "seq": 1, "parts": [{ "text": "\u{e0041}".repeat(12_000) }, { "updates": refs }] });
        let answer = answer(json!({ "messages": [message] }));
        assert!(size(&answer) <= MOST_CHARACTERS, "{}", size(&answer));
        assert_eq!(answer["messages"][0]["parts"][1]["updates"][10], "… 1490 more");
    }

    #[test]
    fn a_tree_of_lists_ends_somewhere() {
        let deep = json!({ "a": { "b": vec![vec!["y".repeat(300); 100]; 10] } });
        assert!(size(&answer(deep)) <= MOST_CHARACTERS);
    }
}
