//! One call of the hub: where it is, who answers it, and all that a client may know of it beforehand.

use std::collections::BTreeSet;

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use parler_protocol::ErrorCode;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::handled::{Handled, Manner};
use crate::state::SharedState;

/// Makes the schema of a value, and of all that it consists of.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

fn schema_of<T: JsonSchema>() -> SchemaOf {
    |generator| generator.subschema_for::<T>()
}

/// One call.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// As in `parler_protocol::paths`.
    pub(crate) path: &'static str,
    handler: Box<dyn FnOnce(Manner) -> MethodRouter<SharedState>>,
    /// Whether it may wait for something, and is over when nobody waits for its answer.
    waits: bool,
    /// What programs made from the document call it.
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    /// Whether it is answered without a token.
    pub(crate) is_open: bool,
    pub(crate) parameters: Vec<Parameter>,
    /// What it takes: media type, and the form of those that are JSON.
    pub(crate) bodies: Vec<(&'static str, Option<SchemaOf>)>,
    pub(crate) answers: Vec<Answer>,
    refusals: BTreeSet<&'static str>,
}

/// What a request may say beside its body, and need not.
pub(crate) struct Parameter {
    pub(crate) is_query: bool,
    pub(crate) name: &'static str,
    pub(crate) schema: SchemaOf,
    pub(crate) is_required: bool,
    pub(crate) description: &'static str,
}

/// One way to succeed.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) description: &'static str,
    /// Its media type, and the form of those that are JSON.
    pub(crate) body: Option<(&'static str, Option<SchemaOf>)>,
    pub(crate) headers: &'static [Header],
}

/// What an answer always says beside its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    AcceptRanges,
    ContentRange,
    ETag,
    Location,
    ParlerBlobLimit,
    ParlerHead,
    UploadOffset,
}

impl Answer {
    /// An answer in JSON.
    pub(crate) fn json<T: JsonSchema>(status: u16, description: &'static str) -> Self {
        Self::of(status, description, Some(("application/json", Some(schema_of::<T>()))))
    }

    /// An answer of this media type.
    pub(crate) fn bytes(status: u16, description: &'static str, media_type: &'static str) -> Self {
        Self::of(status, description, Some((media_type, None)))
    }

    /// An answer without a body.
    pub(crate) fn empty(status: u16, description: &'static str) -> Self {
        Self::of(status, description, None)
    }

    fn of(status: u16, description: &'static str, body: Option<(&'static str, Option<SchemaOf>)>) -> Self {
        Self {
            status,
            description,
            body,
            headers: &[],
        }
    }

    /// The headers that it always has.
    pub(crate) fn with(mut self, headers: &'static [Header]) -> Self {
        self.headers = headers;
        self
    }
}

impl Call {
    /// A GET, and HEAD with it.
    pub(crate) fn get<H, T>(path: &'static str, handler: H) -> Self
    where
        H: Handler<T, SharedState>,
        T: 'static,
    {
        Self::new(Method::GET, path, handler)
    }

    /// A POST.
    pub(crate) fn post<H, T>(path: &'static str, handler: H) -> Self
    where
        H: Handler<T, SharedState>,
        T: 'static,
    {
        Self::new(Method::POST, path, handler)
    }

    /// A PATCH.
    pub(crate) fn patch<H, T>(path: &'static str, handler: H) -> Self
    where
        H: Handler<T, SharedState>,
        T: 'static,
    {
        Self::new(Method::PATCH, path, handler)
    }

    /// A PUT.
    pub(crate) fn put<H, T>(path: &'static str, handler: H) -> Self
    where
        H: Handler<T, SharedState>,
        T: 'static,
    {
        Self::new(Method::PUT, path, handler)
    }

    /// A DELETE.
    pub(crate) fn delete<H, T>(path: &'static str, handler: H) -> Self
    where
        H: Handler<T, SharedState>,
        T: 'static,
    {
        Self::new(Method::DELETE, path, handler)
    }

    /// A call with a token, without parameters and body.
    fn new<H, T>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, SharedState>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("a method of RFC 9110");
        Self {
            method,
            path,
            handler: Box::new(move |manner| on(filter, Handled::new(handler, manner))),
            waits: false,
            name: "",
            summary: "",
            is_open: false,
            parameters: Vec::new(),
            bodies: Vec::new(),
            answers: Vec::new(),
            refusals: BTreeSet::new(),
        }
    }

    /// What programs made from the document call it, and what it is for.
    pub(crate) fn called(mut self, name: &'static str, summary: &'static str) -> Self {
        self.name = name;
        self.summary = summary;
        self
    }

    /// Over when its caller hangs up, although it can change something.
    pub(crate) fn waits(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Answered without a token.
    pub(crate) fn open(mut self) -> Self {
        self.is_open = true;
        self
    }

    fn parameter<T: JsonSchema>(mut self, is_query: bool, name: &'static str, description: &'static str) -> Self {
        self.parameters.push(Parameter {
            is_query,
            name,
            schema: schema_of::<T>(),
            is_required: false,
            description,
        });
        self
    }

    /// Takes a query parameter.
    pub(crate) fn query<T: JsonSchema>(self, name: &'static str, description: &'static str) -> Self {
        self.parameter::<T>(true, name, description)
    }

    /// Takes a header.
    pub(crate) fn header<T: JsonSchema>(self, name: &'static str, description: &'static str) -> Self {
        self.parameter::<T>(false, name, description)
    }

    /// Cannot do without the parameter just named.
    pub(crate) fn required(mut self) -> Self {
        if let Some(parameter) = self.parameters.last_mut() {
            parameter.is_required = true;
        }
        self
    }

    /// Takes JSON.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        self.bodies.push(("application/json", Some(schema_of::<T>())));
        self
    }

    /// Takes bytes of this media type.
    pub(crate) fn takes_bytes(mut self, media_type: &'static str) -> Self {
        self.bodies.push((media_type, None));
        self
    }

    /// Succeeds so.
    pub(crate) fn answers(mut self, answer: Answer) -> Self {
        self.answers.push(answer);
        self
    }

    /// Fails so, besides the ways in which every call of its kind does.
    pub(crate) fn refuses(mut self, codes: &[ErrorCode]) -> Self {
        self.refusals.extend(codes.iter().map(|code| code.as_str()));
        self
    }

    /// All codes it fails with, in the order of [`ErrorCode::ALL`].
    pub(crate) fn refusals(&self) -> Vec<ErrorCode> {
        use ErrorCode as Code;
        let of_every_call = [
            Code::BadRequest,
            Code::Internal,
            Code::MisdirectedRequest,
            Code::OriginRefused,
            Code::Unavailable,
            Code::UnsupportedMediaType,
        ];
        let is_refused = |code: &Code| {
            of_every_call.contains(code)
                || self.refusals.contains(code.as_str())
                || match code {
                    Code::TokenEnded | Code::TokenScope | Code::Unauthenticated => !self.is_open,
                    Code::NotFound => self.path.contains('{'),
                    Code::ApprovalPending | Code::ApprovalRefused => {
                        self.path.contains("{room}") || self.path.contains("{service}")
                    }
                    Code::RequestTimeout | Code::TooLarge => !self.bodies.is_empty(),
                    _ => false,
                }
        };
        Code::ALL.iter().copied().filter(is_refused).collect()
    }

    /// The part of the router that answers it.
    pub(crate) fn into_route(self) -> (&'static str, MethodRouter<SharedState>) {
        let manner = Manner {
            path: self.path,
            takes_query: self.parameters.iter().any(|parameter| parameter.is_query),
            goes_on: self.method != Method::GET && !self.waits,
        };
        (self.path, (self.handler)(manner))
    }
}
