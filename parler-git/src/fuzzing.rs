//! What must hold of any text that others wrote, and of any code or link that somebody was given. Called by the targets
//! of `tests/fuzz` and, with their seeds, by ordinary tests; in no other build.

use parler_protocol::{InviteCode, is_hidden};
use serde_json::Value;

use crate::commands::linked_hub;
use crate::{room_labels, screen, text, visible_json};

/// A text, on its way to a terminal.
pub fn escaping(bytes: &[u8]) {
    let read = &*String::from_utf8_lossy(bytes);
    for line in [
        text::one_line(read),
        text::beginning(read),
        text::name(read),
        text::name_and_role(read, Some(read)),
    ] {
        assert_one_line(&line);
    }
    assert_one_line(&text::own_line(read));
    // What can be seen, and is no longer than a line may be, stays as it is.
    let shown = room_labels::shown(&text::one_line(read)).into_owned();
    if !shown.ends_with("..") && shown.chars().count() <= 500 {
        assert_eq!(room_labels::shown(&text::one_line(&shown)), shown);
    }
    let name = room_labels::shown(&text::name(read)).into_owned();
    if let Some(quoted) = name.strip_prefix('"') {
        assert_eq!(quoted.find('"'), Some(quoted.len() - 1), "{name:?} ends early");
    } else {
        assert_eq!(name, read);
    }
    assert_marked(&text::continued(read), false);
    assert_marked(&text::quoted(read), true);
    for columns in [20, 79] {
        let before = bytes.len() % 30;
        let fitted = screen::fit_in(Some(columns), "message 9: ", &text::one_line(read), " !");
        assert_one_line(&fitted);
        for line in text::lines(read) {
            assert_marked(&screen::wrap_in(Some(columns), &line, before), false);
        }
    }
    assert_json(read);
}

fn assert_one_line(line: &str) {
    let shown = room_labels::shown(line);
    assert!(!shown.chars().any(is_hidden), "{shown:?} hides something");
}

/// Every line of the text, or every further one, says that it is the text's.
fn assert_marked(shown: &str, from_the_first: bool) {
    let shown = room_labels::shown(shown);
    let lines = shown.strip_suffix('\n').unwrap_or(&shown).split('\n');
    for (index, line) in lines.enumerate() {
        assert!(
            !line.chars().any(|character| character != '\t' && is_hidden(character)),
            "{line:?} hides something"
        );
        let is_marked = line.starts_with(text::CONTINUED) || line == text::CONTINUED.trim_end();
        assert!(
            is_marked || (index == 0 && !from_the_first),
            "{line:?} could be a line of ours"
        );
    }
}

fn assert_json(read: &str) {
    let json = visible_json::to_string(&[read]).expect("a text is JSON");
    assert!(!json.chars().any(is_hidden), "{json:?} hides something");
    let back: Value = serde_json::from_str(&json).expect("JSON reads back");
    assert_eq!(back[0], read);
}

/// What was typed, or clicked, as an invite.
pub fn invite(bytes: &[u8]) {
    let typed = &*String::from_utf8_lossy(bytes);
    let code = typed.parse::<InviteCode>();
    match linked_hub(typed, |authority| Ok(authority.len().is_multiple_of(2))) {
        Ok(Some(hub)) => {
            let hub = hub.to_string();
            assert!(hub.starts_with("https://") || hub.starts_with("http://"), "{hub:?}");
            assert!(
                hub.bytes().all(|byte| byte.is_ascii_graphic()) && !hub.contains('@'),
                "{hub:?}"
            );
        }
        Ok(None) => {}
        Err(error) => {
            assert_one_line(&error.line());
            if let Ok(code) = &code {
                assert!(!error.line().contains(code.as_str()), "the code is told");
            }
        }
    }
    // It may be most of a code, so nothing of it is told.
    if let Err(error) = code {
        assert_eq!(Err(error), "".parse::<InviteCode>());
    }
}

#[cfg(test)]
mod tests {
    use parler_harness::each_seed;

    #[test]
    fn the_seeds_of_texts_hold() {
        each_seed("escaping", super::escaping);
    }

    #[test]
    fn the_seeds_of_invites_hold() {
        each_seed("invites", super::invite);
    }
}
