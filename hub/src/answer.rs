//! How answers are written: JSON with the log's head beside it, and stored messages spliced in as they are. Never
//! re-serialises a stored message.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes, BytesMut};
use parler_protocol::{Head, paths};
use serde::Serialize;

use crate::problem::Refusal;

const HEAD_HEADER: HeaderName = HeaderName::from_static(paths::HEAD_HEADER);
const BLOB_LIMIT_HEADER: HeaderName = HeaderName::from_static(paths::BLOB_LIMIT_HEADER);
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Stored messages are sent in pieces of about this size.
const PIECE_BYTES: usize = 256 << 10; // 256 KiB

/// Adds the `Parler-Head` header.
pub(crate) fn tell_head(response: &mut Response, head: &Head) {
    let value = HeaderValue::try_from(head.to_string()).expect("a head is digits, a blank and hexadecimal digits");
    response.headers_mut().insert(HEAD_HEADER, value);
}

/// Adds the `Parler-Blob-Limit` header: the size of the largest blob that the hub takes, in bytes.
pub(crate) fn tell_blob_limit(response: &mut Response, bytes: u64) {
    response
        .headers_mut()
        .insert(BLOB_LIMIT_HEADER, HeaderValue::from(bytes));
}

/// A JSON answer.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Result<Response, Refusal> {
    let body = serde_json::to_vec(body).map_err(Refusal::internal)?;
    Ok((status, [(header::CONTENT_TYPE, JSON)], body).into_response())
}

/// A JSON answer about a room.
pub(crate) fn room_json(status: StatusCode, body: &impl Serialize, head: &Head) -> Result<Response, Refusal> {
    let mut response = json(status, body)?;
    tell_head(&mut response, head);
    Ok(response)
}

/// A JSON object of `before`'s fields, then `messages`, then `after`'s fields. Both are non-empty JSON objects.
pub(crate) fn with_messages(
    before: &impl Serialize,
    messages: Vec<Bytes>,
    after: &impl Serialize,
    head: &Head,
) -> Result<Response, Refusal> {
    let mut open = serde_json::to_vec(before).map_err(Refusal::internal)?;
    let close = serde_json::to_vec(after).map_err(Refusal::internal)?;
    debug_assert!(open.ends_with(b"}") && close.starts_with(b"{") && open.len() > 2 && close.len() > 2);
    open.pop();
    open.extend(b",\"messages\":[");

    let stored_bytes: usize = messages.iter().map(Bytes::len).sum();
    let commas = messages.len().saturating_sub(1);
    let length = open.len() + stored_bytes + commas + b"],".len() + close.len() - b"{".len();

    let mut pieces = Pieces {
        messages: messages.into_iter(),
        open: Some(open),
        close: Some(close),
    };
    let body = if length <= PIECE_BYTES {
        Body::from(pieces.next().unwrap_or_default())
    } else {
        Body::from_stream(futures_util::stream::iter(
            pieces.map(Ok::<_, std::convert::Infallible>),
        ))
    };
    let headers = [
        (header::CONTENT_TYPE, JSON),
        (header::CONTENT_LENGTH, HeaderValue::from(length)),
    ];
    let mut response = (headers, body).into_response();
    tell_head(&mut response, head);
    Ok(response)
}

/// The pieces of such an answer.
struct Pieces {
    open: Option<Vec<u8>>,
    messages: std::vec::IntoIter<Bytes>,
    close: Option<Vec<u8>>,
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let close = self.close.as_ref()?;
        let mut piece = BytesMut::with_capacity(PIECE_BYTES.min(1 << 10));
        let mut is_first = false;
        if let Some(open) = self.open.take() {
            piece.put_slice(&open);
            is_first = true;
        }
        for message in self.messages.by_ref() {
            if !std::mem::take(&mut is_first) {
                piece.put_u8(b',');
            }
            piece.put_slice(&message);
            if piece.len() >= PIECE_BYTES {
                return Some(piece.freeze());
            }
        }
        piece.put_slice(b"],");
        piece.put_slice(&close[1..]);
        self.close = None;
        Some(piece.freeze())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn messages_are_spliced_as_they_are() {
        let head = Head {
            seq: parler_protocol::Seq::ZERO,
            h: parler_protocol::ChainHash::from_bytes([0; 32]),
        };
        for count in [0, 1, 3, 1000] {
            let message = format!(r#"{{ "n": 1.50, "x": "{}" }}"#, "y".repeat(count));
            let messages = vec![Bytes::from(message.clone()); count];
            let response = with_messages(&json!({"room": "r"}), messages, &json!({"cursor": 7}), &head).unwrap();
            let length: usize = response.headers()[header::CONTENT_LENGTH]
                .to_str()
                .unwrap()
                .parse()
                .unwrap();
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            assert_eq!(body.len(), length);
            let expected = format!(
                r#"{{"room":"r","messages":[{}],"cursor":7}}"#,
                vec![message; count].join(",")
            );
            assert_eq!(String::from_utf8(body.to_vec()).unwrap(), expected);
        }
    }
}
