//! The OpenAPI document of the hub: made of the table of calls that the router is made of, and of the types that go over
//! the wire, so that it says of both what is. Decides nothing about a request.

mod call;
mod document;
mod handled;

use std::sync::LazyLock;

use bytes::Bytes;

pub(crate) use call::{Answer, Call, Header};

/// The document as it is served. Made when it is first asked for.
pub(crate) static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let document = document::document(&crate::calls::calls());
    serde_json::to_vec(&document)
        .expect("JSON values can be written")
        .into()
});
