//! The hub's description of itself.

use std::borrow::Cow;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::openapi::DOCUMENT;

/// An OpenAPI document: its own specification says what it may hold.
pub(crate) struct Document;

impl JsonSchema for Document {
    fn schema_name() -> Cow<'static, str> {
        "OpenApiDocument".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "required": ["openapi", "info", "paths", "components"] })
    }
}

/// `GET /v1/openapi.json`: for everybody, because it holds nothing that is not in the manual.
pub(crate) async fn get() -> Response {
    let typed = [(header::CONTENT_TYPE, "application/json")];
    (typed, DOCUMENT.clone()).into_response()
}
