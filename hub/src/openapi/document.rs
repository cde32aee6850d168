//! How calls are written as an OpenAPI 3.1 document.

use std::collections::BTreeMap;

use parler_protocol::{
    AgentId, BundleId, ErrorCode, InviteId, Problem, RoomName, Seq, ServiceName, TokenName, UploadId, paths,
};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::call::{Answer, Call, Header, Parameter, SchemaOf};

const DESCRIPTION: &str = "Rooms with a durable log, refs and blobs. docs/protocol.md is the manual of this document. \
    A path that is none of these is answered with 404 `not_found`, a method that a path does not take with 405 \
    `method_not_allowed`, both as a problem; what is no HTTP with 400, 414 or 431 and no body, and the connection ends.";

/// The document.
pub(crate) fn document(calls: &[Call]) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut writer = Writer {
        generator: settings.into_generator(),
        problems: BTreeMap::new(),
    };
    let mut by_path: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for call in calls {
        let operation = writer.operation(call);
        let path = by_path.entry(call.path).or_default();
        path.insert(call.method.as_str().to_ascii_lowercase(), operation);
    }
    let headers: Map<String, Value> = Header::ALL
        .iter()
        .map(|header| (header.name().to_owned(), header.object()))
        .collect();
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Parler hub",
            "description": DESCRIPTION,
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "security": [{ "token": [] }],
        "paths": by_path,
        "components": {
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "The token of a session, or one for CI: what the latter opens is in docs/protocol.md.",
            } },
            "headers": headers,
            "responses": writer.problems,
            "schemas": writer.generator.take_definitions(true),
        },
    })
}

struct Writer {
    generator: SchemaGenerator,
    /// Failing answers by what they are called.
    problems: BTreeMap<String, Value>,
}

impl Writer {
    fn operation(&mut self, call: &Call) -> Value {
        let segments: Vec<&str> = call.path.split('/').collect();
        let mut parameters: Vec<Value> = segments
            .windows(2)
            .filter_map(|pair| Some((pair[0], pair[1].strip_prefix('{')?.strip_suffix('}')?)))
            .map(|(of, name)| self.path_parameter(of, name))
            .collect();
        parameters.extend(call.parameters.iter().map(|parameter| self.parameter(parameter)));

        let mut responses = Map::new();
        for answer in &call.answers {
            responses.insert(answer.status.to_string(), self.answer(answer));
        }
        let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
        for code in call.refusals() {
            by_status.entry(code.status()).or_default().push(code);
        }
        for (status, codes) in by_status {
            responses.insert(status.to_string(), self.problem(status, &codes));
        }

        let mut operation = json!({
            "operationId": call.name,
            "summary": call.summary,
            "responses": responses,
        });
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if !call.bodies.is_empty() {
            let content = call.bodies.iter().map(|body| self.content(*body));
            operation["requestBody"] = json!({ "required": true, "content": Value::Object(content.collect()) });
        }
        if call.is_open {
            operation["security"] = json!([]);
        }
        operation
    }

    /// A parameter behind this segment of a path.
    fn path_parameter(&mut self, of: &str, name: &str) -> Value {
        let schema = match of {
            "blobs" => self.generator.subschema_for::<BundleId>(),
            "claims" | "jobs" | "messages" => self.generator.subschema_for::<Seq>(),
            "invites" => self.generator.subschema_for::<InviteId>(),
            "members" | "requests" => self.generator.subschema_for::<AgentId>(),
            "rooms" => self.generator.subschema_for::<RoomName>(),
            "services" => self.generator.subschema_for::<ServiceName>(),
            "tokens" => self.generator.subschema_for::<TokenName>(),
            "uploads" => self.generator.subschema_for::<UploadId>(),
            // A test asks for the document.
            unknown => panic!("the parameter of {unknown} has no type in the document"),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    }

    fn parameter(&mut self, parameter: &Parameter) -> Value {
        let schema = (parameter.schema)(&mut self.generator);
        let mut written = json!({
            "name": parameter.name,
            "in": if parameter.is_query { "query" } else { "header" },
            "description": parameter.description,
            "required": parameter.is_required,
            "schema": schema,
        });
        if schema.get("type").is_some_and(|kind| kind == "array") {
            // One parameter, its elements with commas.
            written["style"] = "form".into();
            written["explode"] = false.into();
        }
        written
    }

    fn content(&mut self, (media_type, schema): (&str, Option<SchemaOf>)) -> (String, Value) {
        let content = match schema {
            Some(schema) => json!({ "schema": schema(&mut self.generator) }),
            None => json!({}),
        };
        (media_type.to_owned(), content)
    }

    fn answer(&mut self, answer: &Answer) -> Value {
        let mut written = json!({ "description": answer.description });
        if let Some(body) = answer.body {
            written["content"] = Value::Object(Map::from_iter([self.content(body)]));
        }
        if !answer.headers.is_empty() {
            let headers = answer.headers.iter().map(|header| {
                let place = format!("#/components/headers/{}", header.name());
                (header.name().to_owned(), json!({ "$ref": place }))
            });
            written["headers"] = Value::Object(headers.collect());
        }
        written
    }

    /// A failing answer with one of these codes, which share a status.
    fn problem(&mut self, status: u16, codes: &[ErrorCode]) -> Value {
        let codes: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
        let name = codes.join(".");
        let place = format!("#/components/responses/{name}");
        let problem = self.generator.subschema_for::<Problem>();
        let mut required = Vec::new();
        let mut headers = json!({
            "Parler-Head": { "description": "To members of a room.", "schema": Header::ParlerHead.schema() },
        });
        match status {
            401 => {
                required.push("challenge");
                headers["WWW-Authenticate"] = json!({ "required": true, "schema": { "const": "Bearer" } });
            }
            416 => {
                let schema = Header::ContentRange.schema();
                headers["Content-Range"] = json!({ "required": true, "schema": schema });
            }
            429 => {
                let description = "How many seconds to wait.";
                let schema = json!({ "type": "integer", "minimum": 1 });
                headers["Retry-After"] = json!({ "required": true, "description": description, "schema": schema });
            }
            _ => {}
        }
        self.problems.entry(name).or_insert_with(|| {
            json!({
                "description": codes.join(", or "),
                "headers": headers,
                "content": { paths::PROBLEM_TYPE: { "schema": {
                    "allOf": [problem],
                    "required": required,
                    "properties": { "code": { "enum": codes }, "status": { "const": status } },
                } } },
            })
        });
        json!({ "$ref": place })
    }
}

impl Header {
    const ALL: [Self; 7] = [
        Self::AcceptRanges,
        Self::ContentRange,
        Self::ETag,
        Self::Location,
        Self::ParlerBlobLimit,
        Self::ParlerHead,
        Self::UploadOffset,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::AcceptRanges => "Accept-Ranges",
            Self::ContentRange => "Content-Range",
            Self::ETag => "ETag",
            Self::Location => "Location",
            Self::ParlerBlobLimit => "Parler-Blob-Limit",
            Self::ParlerHead => "Parler-Head",
            Self::UploadOffset => "Upload-Offset",
        }
    }

    fn schema(self) -> Value {
        match self {
            Self::AcceptRanges => json!({ "const": "bytes" }),
            Self::ContentRange => json!({ "type": "string", "pattern": r"^bytes ([0-9]+-[0-9]+|\*)/[0-9]+$" }),
            Self::ETag => json!({ "type": "string", "pattern": "^\"[0-9a-f]+\"$" }),
            Self::Location => json!({ "type": "string", "pattern": "^/v1/" }),
            Self::ParlerBlobLimit | Self::UploadOffset => json!({ "type": "integer", "minimum": 0 }),
            Self::ParlerHead => json!({ "type": "string", "pattern": "^[0-9]+ [0-9a-f]{64}$" }),
        }
    }

    fn object(self) -> Value {
        let description = match self {
            Self::AcceptRanges => "Byte ranges are answered.",
            Self::ContentRange => "Which bytes these are, and how many there are.",
            Self::ETag => "What to send as `If-None-Match`, or `If-Range`.",
            Self::Location => "Where it is.",
            Self::UploadOffset => "How many bytes the hub has.",
            Self::ParlerBlobLimit => "The size of the largest blob that the hub takes, in bytes.",
            Self::ParlerHead => "How far the room's log reaches, and the chain there.",
        };
        json!({ "description": description, "required": true, "schema": self.schema() })
    }
}
