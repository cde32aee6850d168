//! The golden files of `fixtures/wire` against the schemas of the OpenAPI document: each is what its schema says, and has
//! no property that the schema does not name. That hub and client send what the files hold is shown by `fixtures`.

use std::path::Path;

use parler_protocol::ErrorCode;
use serde_json::{Map, Value, json};

use crate::support::{TestHub, openapi};

/// Each file with its schema.
const FILES: &[(&str, &str)] = &[
    ("agents-answer.json", "AgentList"),
    ("claim-answer.json", "ClaimedJob"),
    ("claim-request.json", "ClaimJob"),
    ("cursor.json", "Cursor"),
    ("dm-request.json", "OpenDm"),
    ("invite-answer.json", "InviteCreated"),
    ("invite-request.json", "CreateInvite"),
    ("invites-answer.json", "InviteList"),
    ("invites-revoked-answer.json", "InvitesRevoked"),
    ("join-pending-answer.json", "JoinPending"),
    ("jobs-answer.json", "JobList"),
    ("join-request.json", "Join"),
    ("member-request.json", "ChangeMember"),
    ("members-answer.json", "MemberList"),
    ("message.json", "Message"),
    ("page-answer.json", "Page"),
    ("post-message.json", "PostMessage"),
    ("posted-answer.json", "Posted"),
    ("problem-ref-moved.json", "Problem"),
    ("problem-unauthenticated.json", "Problem"),
    ("problem-upload-offset.json", "Problem"),
    ("pushes-answer.json", "Pushes"),
    ("receipts-answer.json", "Receipts"),
    ("refs-answer.json", "RefList"),
    ("renew-answer.json", "ClaimRenewed"),
    ("renew-request.json", "RenewClaim"),
    ("room-answer.json", "RoomAnswer"),
    ("room-request.json", "CreateRoom"),
    ("rooms-answer.json", "RoomList"),
    ("serve-request.json", "Serve"),
    ("session-answer.json", "SessionOpened"),
    ("session-request.json", "OpenSession"),
    ("status-request.json", "SetStatus"),
    ("bundles-request.json", "WantedBundles"),
    ("upload-answer.json", "UploadProgress"),
    ("upload-request.json", "BeginUpload"),
];

/// Lets no object of these schemas have a property that is not named. Parts stay open, and so does what flattens others
/// into itself.
fn close(schemas: &mut Map<String, Value>) {
    for (name, schema) in schemas {
        if !name.ends_with("Part") && schema.get("properties").is_some() && schema.get("allOf").is_none() {
            schema["additionalProperties"] = json!(false);
        }
    }
}

fn fixture(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures/wire")
        .join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// All objects in a value, by the way to them.
fn objects(value: &Value, way: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.push(way.to_owned());
            for (key, value) in map {
                objects(value, &format!("{way}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                objects(item, &format!("{way}/{index}"), found);
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn the_golden_files_are_what_the_document_says() {
    let hub = TestHub::start().await;
    let document = openapi::document(&hub.agent("alice").await).await;
    let mut schemas = document["components"]["schemas"].as_object().unwrap().clone();
    close(&mut schemas);
    for (file, schema) in FILES {
        let root = json!({
            "$ref": format!("#/components/schemas/{schema}"),
            "components": { "schemas": schemas },
        });
        let validator = jsonschema::draft202012::new(&root).unwrap();
        let value = fixture(file);
        let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{file}: {errors:?}");
        // The other way: a property more, or a required one less, is not what it says.
        let mut ways = Vec::new();
        objects(&value, "", &mut ways);
        for way in ways.iter().filter(|way| !way.contains("/parts/")) {
            let mut changed = value.clone();
            let object = changed.pointer_mut(way).unwrap().as_object_mut().unwrap();
            object.insert("undocumented".to_owned(), json!(1));
            assert!(
                !validator.is_valid(&changed),
                "{file}: {schema} takes anything at {way:?}"
            );
        }
    }
}

/// Every reference leads somewhere, and every schema is one.
#[tokio::test]
async fn the_document_is_whole() {
    let hub = TestHub::start().await;
    let document = openapi::document(&hub.agent("alice").await).await;
    let mut references = 0;
    let mut check = |value: &Value| {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            references += 1;
            let place = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference}"));
            assert!(document.pointer(place).is_some(), "{reference} leads nowhere");
        }
    };
    let mut pending = vec![&document];
    while let Some(value) = pending.pop() {
        check(value);
        match value {
            Value::Object(map) => pending.extend(map.values()),
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
    }
    assert!(references > 100, "{references}");
    // Each status of a problem is that of each of its codes.
    for response in document["components"]["responses"].as_object().unwrap().values() {
        let schema = &response["content"]["application/problem+json"]["schema"]["properties"];
        for code in schema["code"]["enum"].as_array().unwrap() {
            let code: ErrorCode = serde_json::from_value(code.clone()).unwrap();
            assert_eq!(schema["status"]["const"], code.status());
        }
    }
}
