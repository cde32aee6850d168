//! Texts that an option names, or that standard input holds where it says `-`. Reads standard input once at most: the
//! second `-` of a command finds it empty.

use std::io::Read;

use parler_protocol::limits::MAX_MESSAGE_BYTES;

use crate::error::{Error, ErrorKind, Result};

/// The text of an option, which must say something; `-` stands for what standard input holds.
pub(crate) fn text_of(option: &str, text: &str) -> Result<String> {
    let text = if text == "-" { read_input()? } else { text.to_owned() };
    if text.trim().is_empty() {
        return Err(Error::usage(format_args!("{option} is empty")));
    }
    if text.len() > MAX_MESSAGE_BYTES {
        return Err(Error::new(
            ErrorKind::Refused,
            format_args!("{option} is longer than {MAX_MESSAGE_BYTES} bytes"),
        ));
    }
    Ok(text)
}

fn read_input() -> Result<String> {
    let mut bytes = Vec::new();
    // One byte more than fits shows that it does not fit.
    let read = std::io::stdin()
        .take(MAX_MESSAGE_BYTES as u64 + 1)
        .read_to_end(&mut bytes);
    read.map_err(|error| Error::io("read standard input", &error))?;
    String::from_utf8(bytes).map_err(|_| Error::usage("the text on standard input is not UTF-8"))
}
