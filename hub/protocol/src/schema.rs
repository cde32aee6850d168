//! The JSON schemas of what derives none: ids and names, each written as one string, numbers, codes and parts. The OpenAPI
//! document of the hub is made of them. A schema says what can be said of one value by itself; it refuses nothing that
//! the type's `FromStr` takes.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;

use crate::part::Part;
use crate::{
    AgentId, AgentName, BundleId, BundleRefName, ChainHash, Challenge, ErrorCode, Fingerprint, HubId, InviteCode,
    InviteId, MessageHash, MessageId, ObjectFormat, Oid, RefName, RepositoryId, ReviewText, RoomName, RuleName, RunUrl,
    Seq, ServiceName, StatusContext, StatusText, TokenName, TreePath, UploadId, limits, part_kind,
};

macro_rules! schemas {
    ($( $type:ident $description:literal $schema:tt ;)+) => { $(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let mut schema = json_schema!($schema);
                schema.insert("description".to_owned(), $description.into());
                schema
            }
        }
    )+ };
}

schemas! {
    AgentId "A public key in nkey spelling: base32 of byte 160, the 32 key bytes, and their CRC-16/XMODEM."
        { "type": "string", "pattern": "^U[A-Z2-7]{55}$" };
    AgentName "What an agent or a role is called: at most 128 bytes, visible, without blanks at the ends."
        { "type": "string", "minLength": 1, "maxLength": limits::MAX_AGENT_NAME_BYTES, "pattern": r"^\S(.*\S)?$" };
    BundleId "SHA-256 of a blob's bytes."
        { "type": "string", "pattern": "^[0-9a-f]{64}$" };
    BundleRefName "A ref of a bundle's header: a full name, or HEAD."
        { "type": "string", "pattern": r"^(HEAD|refs/[^\x00-\x20~^:?*\[\\\x7f]+)$", "maxLength": limits::MAX_REF_NAME_BYTES };
    ChainHash "One link of the log's hash chain."
        { "type": "string", "pattern": "^[0-9a-f]{64}$" };
    Challenge "What a session's proof signs. Opaque."
        { "type": "string", "pattern": "^[!-~]{1,512}$" };
    ErrorCode "What went wrong. Stable; new codes may come: judge those by the status."
        { "type": "string", "enum": ErrorCode::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>() };
    Fingerprint "What makes a finding known again where lines have moved: visible ASCII."
        { "type": "string", "minLength": 1, "maxLength": limits::MAX_FINGERPRINT_BYTES, "pattern": "^[!-~]+$" };
    HubId "The hub, wherever it moves."
        { "type": "string", "pattern": "^[0-9a-f]{32}$" };
    InviteCode "An invite code in any case, or a link that ends with one. Answers have the bare code."
        { "type": "string", "pattern": r"^(.*/join/)?\s*[A-HJ-NP-Za-hj-np-z2-9]{8,32}\s*$" };
    InviteId "What an invite is called where its code is not told: the first digits of the code's SHA-256."
        { "type": "string", "pattern": "^[0-9a-f]{12}$" };
    MessageHash "SHA-256 of a message exactly as it was stored."
        { "type": "string", "pattern": "^[0-9a-f]{64}$" };
    MessageId "A UUID, lowercase with hyphens."
        { "type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$" };
    ObjectFormat "The hash of a repository."
        { "type": "string", "enum": ["sha1", "sha256"] };
    Oid "A git object id of either hash."
        { "type": "string", "pattern": "^([0-9a-f]{40}|[0-9a-f]{64})$" };
    RefName "A full ref name that git check-ref-format accepts, not below refs/parler/, and not ending like an object id."
        { "type": "string", "pattern": r"^refs/[^\x00-\x20~^:?*\[\\\x7f]+$", "maxLength": limits::MAX_REF_NAME_BYTES };
    RepositoryId "A repository: host and path of its address in lower case, without scheme, user, port, query and .git."
        { "type": "string", "minLength": 3, "maxLength": limits::MAX_REPOSITORY_ID_BYTES, "pattern": r"^[!-~]+/[!-~]+$" };
    ReviewText "A text for people, of any lines: at most 4096 bytes."
        { "type": "string", "minLength": 1, "maxLength": limits::MAX_REVIEW_TEXT_BYTES };
    RoomName "A room's name, found in any case."
        { "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "maxLength": limits::MAX_ROOM_NAME_BYTES };
    RuleName "What a finder calls one of its rules: at most 256 bytes, visible, without blanks at the ends."
        { "type": "string", "minLength": 1, "maxLength": limits::MAX_RULE_BYTES, "pattern": r"^\S(.*\S)?$" };
    RunUrl "The address of a page: http or https, visible ASCII, without a user."
        { "type": "string", "maxLength": limits::MAX_RUN_URL_BYTES, "pattern": "^https?://[!-~]+$" };
    ServiceName "A service's name, read in any case."
        { "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$", "maxLength": limits::MAX_SERVICE_NAME_BYTES };
    StatusContext "What a status is about beside the commit: at most 128 bytes, visible, without commas and blanks at the ends."
        { "type": "string", "minLength": 1, "maxLength": limits::MAX_CONTEXT_BYTES, "pattern": r"^[^\s,-]([^,]*[^\s,])?$" };
    StatusText "What an agent says that it is at: at most 200 bytes, visible, without blanks at the ends."
        { "type": "string", "minLength": 1, "maxLength": limits::MAX_STATUS_BYTES, "pattern": r"^\S(.*\S)?$" };
    TokenName "What a token is called; unique on its hub, without case."
        { "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "maxLength": limits::MAX_TOKEN_NAME_BYTES };
    TreePath "A path in a commit's tree."
        { "type": "string", "minLength": 1, "maxLength": limits::MAX_TREE_PATH_BYTES, "pattern": r"^[^/\x00]+(/[^/\x00]+)*$" };
    UploadId "An upload under way."
        { "type": "string", "pattern": "^[0-9a-f]{32}$" };
    Seq "A message's number in its room, from 1 without gaps; 0: before the first."
        { "type": "integer", "minimum": 0, "maximum": i64::MAX };
}

impl Part {
    /// Any part, as a hub takes it: what it does not know it keeps, what it acts on has to be of the documented form.
    pub(crate) fn any(known: Vec<(&str, Schema)>) -> Schema {
        let mut forms: Vec<_> = known
            .into_iter()
            .map(|(kind, form)| {
                json!({
                    "title": kind,
                    "allOf": [form],
                    "type": "object",
                    "required": ["kind"],
                    "properties": { "kind": { "const": kind } },
                })
            })
            .collect();
        forms.push(json!({
            "title": "any other",
            "type": "object",
            "required": ["kind"],
            "properties": { "kind": {
                "type": "string",
                "maxLength": limits::MAX_AGENT_NAME_BYTES,
                "pattern": r"^(text|data|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+)$",
                "not": { "enum": [part_kind::BUNDLE, part_kind::REFS] },
            } },
        }));
        json_schema!({ "description": "One part of a message, by its kind. Unknown kinds are kept as they came.", "anyOf": forms })
    }
}
