//! Every call of the hub, once: where it is, who answers it, and what the OpenAPI document says of it. The router and the
//! document are made of this table, so neither has a call that the other has not.

use parler_protocol::ErrorCode as Code;
use parler_protocol::api::{
    AgentList, BeginUpload, ChangeMember, ClaimJob, ClaimRenewed, ClaimedJob, CreateInvite, CreateRoom, CreateToken,
    Cursor, ExchangeIdentity, InviteCreated, InviteList, InvitesRevoked, JobFilter, JobList, JobSummary, Join,
    JoinPending, MemberList, OpenDm, OpenSession, Page, PostMessage, Posted, Pushes, Receipts, RefList, RenewClaim,
    RoomAnswer, RoomList, Serve, SessionOpened, SetStatus, TokenCreated, TokenList, TokenSummary, UploadProgress,
    WantedBundles,
};
use parler_protocol::paths::{self, template};
use parler_protocol::{AgentId, Seq, UploadId};

use crate::handlers::{
    blobs, bundles, contacts, cursor, events, health, invites, members, messages, oidc, openapi, pushes, receipts,
    refs, rooms, services, sessions, stream, tokens, uploads,
};
use crate::openapi::{Answer, Call, Header};

/// What a push, or another message with a blob, can fail with.
const POST_REFUSALS: &[Code] = &[
    Code::BadSignature,
    Code::BlobMismatch,
    Code::IdempotencyConflict,
    Code::JobState,
    Code::NameTaken,
    Code::NoLongerKept,
    Code::NotServing,
    Code::ObjectFormatMismatch,
    Code::RefDirectoryConflict,
    Code::RefMoved,
    Code::StaleFence,
    Code::StorageFull,
    Code::UnknownBlob,
    Code::UnknownUpload,
];

/// The calls.
pub(crate) fn calls() -> Vec<Call> {
    let head = &[Header::ParlerHead];
    vec![
        Call::get(paths::HEALTH, health::get)
            .called("health", "Whether the hub serves")
            .open()
            .answers(Answer::json::<health::Health>(200, "It does.")),
        Call::get(paths::OPENAPI, openapi::get)
            .called("openapi", "This document")
            .open()
            .answers(Answer::json::<openapi::Document>(200, "The document.")),
        Call::post(paths::SESSION, sessions::open)
            .called("openSession", "Prove a key, get a token")
            .open()
            .takes::<OpenSession>()
            .answers(Answer::json::<SessionOpened>(200, "The session."))
            .refuses(&[
                Code::Unauthenticated,
                Code::ApprovalRefused,
                Code::NameReserved,
                Code::NameTaken,
                Code::NotAdmitted,
                Code::InvalidInvite,
            ])
            .refuses(&[Code::RateLimited, Code::StorageFull]),
        Call::post(paths::INVITES, invites::create)
            .called("createInvite", "Invite into a room")
            .takes::<CreateInvite>()
            .answers(Answer::json::<InviteCreated>(201, "The invite."))
            .refuses(&[
                Code::ApprovalPending,
                Code::ApprovalRefused,
                Code::NameReserved,
                Code::NotFound,
                Code::NotServing,
                Code::StorageFull,
            ]),
        Call::post(paths::JOIN, invites::join)
            .called("join", "Redeem an invite")
            .takes::<Join>()
            .answers(Answer::json::<RoomAnswer>(200, "The room it led into.").with(head))
            .answers(Answer::json::<JoinPending>(202, "An owner has to let you in."))
            .refuses(&[
                Code::ApprovalRefused,
                Code::InvalidInvite,
                Code::NameTaken,
                Code::RateLimited,
                Code::StorageFull,
            ]),
        Call::post(paths::ROOMS, rooms::create)
            .called("createRoom", "Make a channel")
            .takes::<CreateRoom>()
            .answers(Answer::json::<RoomAnswer>(201, "The room.").with(head))
            .refuses(&[Code::NameReserved, Code::RoomExists, Code::StorageFull]),
        Call::get(paths::ROOMS, rooms::list)
            .called("listRooms", "The rooms I am in")
            .answers(Answer::json::<RoomList>(200, "By name.")),
        Call::get(paths::EVENTS, events::get)
            .called("events", "Hints about all my rooms")
            .answers(Answer::bytes(
                200,
                "Events `heads` and `hint`.",
                paths::EVENT_STREAM_TYPE,
            ))
            .refuses(&[Code::RateLimited]),
        Call::get(paths::AGENTS, contacts::list)
            .called("listAgents", "The agents I can write to")
            .answers(Answer::json::<AgentList>(
                200,
                "In the order in which the hub came to know them.",
            )),
        Call::post(paths::DMS, contacts::open)
            .called("openDm", "Open the direct room of two agents")
            .takes::<OpenDm>()
            .answers(Answer::json::<RoomAnswer>(200, "The room, which there was.").with(head))
            .answers(Answer::json::<RoomAnswer>(201, "The room, which was made.").with(head))
            .refuses(&[Code::NotFound, Code::StorageFull]),
        Call::put(paths::STATUS, contacts::set_status)
            .called("setStatus", "Say what I am at")
            .takes::<SetStatus>()
            .answers(Answer::json::<SetStatus>(200, "What it is now."))
            .refuses(&[Code::StorageFull]),
        Call::post(paths::TOKENS, tokens::create)
            .called("createToken", "Make a token for CI")
            .takes::<CreateToken>()
            .answers(Answer::json::<TokenCreated>(201, "The token, told this once."))
            .refuses(&[
                Code::ApprovalPending,
                Code::ApprovalRefused,
                Code::NotFound,
                Code::StorageFull,
                Code::TokenExists,
            ]),
        Call::post(paths::OIDC, oidc::exchange)
            .called("exchangeIdentity", "Exchange a CI job's identity token for a token")
            .open()
            .takes::<ExchangeIdentity>()
            .answers(Answer::json::<TokenCreated>(201, "The token, told this once."))
            .refuses(&[Code::OidcRefused, Code::RateLimited, Code::StorageFull]),
        Call::get(paths::TOKENS, tokens::list)
            .called("listTokens", "Tokens I made, and those for rooms I own")
            .answers(Answer::json::<TokenList>(200, "By name.")),
        Call::delete(template::TOKEN_NAMED, tokens::revoke)
            .called("revokeToken", "End a token")
            .answers(Answer::json::<TokenSummary>(200, "What it was."))
            .refuses(&[Code::StorageFull]),
        Call::get(paths::TOKEN, tokens::show)
            .called("showToken", "What the token that asks may do")
            .answers(Answer::json::<TokenSummary>(200, "The token."))
            .refuses(&[Code::NotFound]),
        Call::post(paths::SERVICES, services::serve)
            .called("serve", "Serve a service")
            .takes::<Serve>()
            .answers(Answer::json::<RoomAnswer>(200, "Its room, which there was.").with(head))
            .answers(Answer::json::<RoomAnswer>(201, "Its room, which was made.").with(head))
            .refuses(&[
                Code::ApprovalPending,
                Code::ApprovalRefused,
                Code::NotFound,
                Code::NotServing,
                Code::StorageFull,
            ]),
        Call::post(template::CLAIMS, services::claim)
            .called("claimJob", "Ask for a job")
            .waits()
            .takes::<ClaimJob>()
            .answers(Answer::json::<ClaimedJob>(200, "The job, mine for as long as it says.").with(head))
            .answers(Answer::empty(204, "There is none.").with(head))
            .refuses(&[Code::NotServing, Code::StorageFull]),
        Call::put(template::CLAIM, services::renew)
            .called("renewClaim", "Keep a job")
            .takes::<RenewClaim>()
            .answers(Answer::json::<ClaimRenewed>(200, "Until when.").with(head))
            .refuses(&[Code::NotServing, Code::StaleFence, Code::StorageFull]),
        Call::delete(template::CLAIM, services::release)
            .called("releaseClaim", "Give a job back")
            .query::<u64>("fence", "The claim's number.")
            .required()
            .answers(Answer::empty(204, "It is for whoever asks next.").with(head))
            .refuses(&[Code::NotServing, Code::StaleFence, Code::StorageFull]),
        Call::get(template::JOBS, services::jobs)
            .called("listJobs", "The jobs of a service")
            .query::<Seq>("after", "The last job already had.")
            .query::<u32>("limit", "Jobs at most; never more than 1000.")
            .query::<JobFilter>(
                "state",
                "Those that may still come to a result, or those that were given up.",
            )
            .answers(Answer::json::<JobList>(200, "In the order they came.").with(head)),
        Call::post(template::JOB_RETRY, services::retry)
            .called("retryJob", "Offer a dead job again")
            .answers(Answer::json::<JobSummary>(200, "How it stands now.").with(head))
            .refuses(&[Code::JobState, Code::NotServing, Code::StorageFull]),
        Call::get(template::ROOM, rooms::get)
            .called("showRoom", "How far a room reaches")
            .answers(Answer::json::<RoomAnswer>(200, "The room.").with(PLACE_HEADERS)),
        Call::delete(template::ROOM, members::delete_room)
            .called("deleteRoom", "Delete a room with all it holds")
            .answers(Answer::empty(204, "It is gone."))
            .refuses(&[Code::NotOwner, Code::StorageFull]),
        Call::put(template::MEMBER, members::put)
            .called("changeMember", "Make a member an owner, or no longer one")
            .takes::<ChangeMember>()
            .answers(Answer::json::<ChangeMember>(200, "What it is now.").with(head))
            .refuses(&[Code::LastOwner, Code::NotOwner, Code::StorageFull]),
        Call::delete(template::MEMBER, members::delete)
            .called("endMembership", "Leave a room, or remove a member")
            .answers(Answer::empty(204, "It is no longer in the room."))
            .refuses(&[Code::LastOwner, Code::NotOwner, Code::StorageFull]),
        Call::put(template::REQUEST, members::admit)
            .called("admitMember", "Let somebody in who asked")
            .answers(Answer::empty(204, "It is in the room."))
            .refuses(&[Code::NameTaken, Code::NotOwner, Code::StorageFull]),
        Call::delete(template::REQUEST, members::refuse)
            .called("refuseMember", "Refuse somebody who asked")
            .answers(Answer::empty(204, "It is not let in."))
            .refuses(&[Code::NotOwner, Code::StorageFull]),
        Call::get(template::ROOM_INVITES, invites::list)
            .called("listInvites", "The invites of a room that are open")
            .answers(Answer::json::<InviteList>(200, "The oldest first.").with(head)),
        Call::delete(template::ROOM_INVITES, invites::revoke_all)
            .called("revokeInvites", "End all invites of a room that I may end")
            .answers(Answer::json::<InvitesRevoked>(200, "How many were open."))
            .refuses(&[Code::StorageFull]),
        Call::delete(template::ROOM_INVITE, invites::revoke)
            .called("revokeInvite", "End an invite")
            .answers(Answer::json::<InvitesRevoked>(200, "It was open."))
            .refuses(&[Code::InvalidInvite, Code::StorageFull]),
        Call::get(template::MEMBERS, rooms::members)
            .called("listMembers", "Who is in a room")
            .answers(Answer::json::<MemberList>(200, "In the order they came.").with(head)),
        Call::get(template::MESSAGES, messages::get)
            .called("readMessages", "Read a page of the log")
            .query::<Seq>("after", "The last message already had; left out: my cursor.")
            .query::<u32>("limit", "Messages at most; never more than 1000.")
            .query::<u64>(
                "wait",
                "Seconds to wait where nothing is there yet; never more than 55.",
            )
            .header::<String>(paths::NOTES_HEADER, NOTES)
            .answers(Answer::json::<Page>(200, "The page.").with(PLACE_HEADERS))
            .refuses(&[Code::NoLongerKept]),
        Call::post(template::MESSAGES, messages::post)
            .called("postMessage", "Append a message")
            .header::<messages::IdempotencyKey>(
                paths::IDEMPOTENCY_KEY_HEADER,
                "The request under the same key gets the first answer again. Left out: the message's id.",
            )
            .header::<UploadId>(paths::UPLOAD_HEADER, "The upload with the blob that it brings.")
            .header::<AgentId>(
                paths::AGENT_HEADER,
                "The key that signed it, where a token for CI posts it.",
            )
            .header::<String>(
                paths::FENCE_HEADER,
                "Where it says what became of a service's job: the job's number and the claim's.",
            )
            .header::<u32>(
                paths::MESSAGE_LENGTH_HEADER,
                "Bytes of the message's JSON, where a blob follows it.",
            )
            .takes::<PostMessage<'_>>()
            .takes_bytes(paths::MESSAGE_WITH_BLOB_TYPE)
            .answers(Answer::json::<Posted>(200, "It had been posted before.").with(head))
            .answers(Answer::json::<Posted>(201, "It is on disk.").with(head))
            .refuses(POST_REFUSALS),
        Call::get(template::RECEIPTS, receipts::get)
            .called("readReceipts", "What the hub knows of a message and its readers")
            .query::<u64>(
                "wait",
                "Seconds to wait where nothing has changed since `since`; never more than 55.",
            )
            .query::<String>("since", "A `version` already had.")
            .answers(Answer::json::<Receipts>(200, "How they stand.").with(head)),
        Call::post(template::UPLOADS, uploads::begin)
            .called("beginUpload", "Begin to upload a blob")
            .header::<messages::IdempotencyKey>(paths::IDEMPOTENCY_KEY_HEADER, SAME_KEY)
            .takes::<BeginUpload>()
            .answers(Answer::json::<UploadProgress>(200, "It had been begun before.").with(BEGUN_HEADERS))
            .answers(Answer::json::<UploadProgress>(201, "It is begun.").with(BEGUN_HEADERS))
            .refuses(&[
                Code::IdempotencyConflict,
                Code::NameTaken,
                Code::RateLimited,
                Code::StorageFull,
            ]),
        Call::get(template::UPLOAD, uploads::get)
            .called("showUpload", "How far an upload is")
            .answers(Answer::json::<UploadProgress>(200, "So far.").with(UPLOAD_HEADERS))
            .refuses(&[Code::StorageFull]),
        Call::patch(template::UPLOAD, uploads::append)
            .called("appendToUpload", "Add bytes to an upload")
            .header::<u64>(paths::UPLOAD_OFFSET_HEADER, "How many bytes there are before these.")
            .required()
            .takes_bytes(paths::PARTIAL_UPLOAD_TYPE)
            .answers(Answer::json::<UploadProgress>(200, "They are kept.").with(UPLOAD_HEADERS))
            .refuses(&[Code::RateLimited, Code::StorageFull, Code::UploadOffset]),
        Call::delete(template::UPLOAD, uploads::delete)
            .called("endUpload", "Forget an upload")
            .answers(Answer::empty(204, "It is gone.")),
        Call::get(template::STREAM, stream::get)
            .called("stream", "Follow the log")
            .query::<Seq>("after", "The last message already had; left out: my cursor.")
            .header::<Seq>(paths::LAST_EVENT_ID_HEADER, "The same, and it counts before `after`.")
            .header::<String>(paths::NOTES_HEADER, NOTES)
            .answers(Answer::bytes(200, "Events `message` and `reread`.", paths::EVENT_STREAM_TYPE).with(head))
            .refuses(&[Code::NoLongerKept, Code::RateLimited]),
        Call::put(template::CURSOR, cursor::put)
            .called("acknowledge", "Move my cursor forward")
            .takes::<Cursor>()
            .answers(Answer::json::<Cursor>(200, "Where it is now.").with(head))
            .refuses(&[Code::StorageFull]),
        Call::get(template::PUSHES, pushes::get)
            .called("readPushes", "The messages that carry refs or a bundle")
            .query::<Seq>("since", "A version already had.")
            .header::<String>("if-none-match", "An `ETag` already had.")
            .answers(Answer::json::<Pushes>(200, "What is newer.").with(PUSHES_HEADERS))
            .answers(Answer::empty(304, "The version is the one already had.").with(PUSHES_HEADERS)),
        Call::get(template::REFS, refs::get)
            .called("listRefs", "The hub's own fold of the refs")
            .answers(Answer::json::<RefList>(200, "By name.").with(head)),
        Call::get(template::BLOB, blobs::get)
            .called("readBlob", "The bytes of a blob")
            .header::<String>("range", "One range of bytes; others are passed over.")
            .header::<String>("if-range", "An `ETag`: the range counts only for this blob.")
            .answers(Answer::bytes(200, "All of it.", blobs::MEDIA_TYPE).with(BLOB_HEADERS))
            .answers(Answer::bytes(206, "The range.", blobs::MEDIA_TYPE).with(PART_HEADERS))
            .refuses(&[Code::NoLongerKept, Code::RangeNotSatisfiable]),
        Call::get(template::BUNDLES, bundles::get)
            .called("readBundles", "Several bundles in one answer")
            .query::<bundles::Ids>("ids", "In the order they are wanted.")
            .required()
            .answers(Answer::bytes(200, BUNDLE_FRAMES, paths::BUNDLES_TYPE).with(head))
            .refuses(&[Code::NoLongerKept, Code::TooLarge]),
        Call::post(template::BUNDLES, bundles::post)
            .called("readManyBundles", "More bundles than a query takes")
            .takes::<WantedBundles>()
            .answers(Answer::bytes(200, BUNDLE_FRAMES, paths::BUNDLES_TYPE).with(head))
            .refuses(&[Code::NoLongerKept]),
    ]
}

const NOTES: &str = "Any value: the reader knows the notes of messages that are no longer kept.";
const BUNDLE_FRAMES: &str = "For each a line `ID SIZE`, then its bytes.";
const SAME_KEY: &str = "A request under the same key finds what the first one made.";
const BEGUN_HEADERS: &[Header] = &[Header::Location, Header::ParlerHead, Header::UploadOffset];
const PLACE_HEADERS: &[Header] = &[Header::ParlerBlobLimit, Header::ParlerHead];
const PUSHES_HEADERS: &[Header] = &[Header::ETag, Header::ParlerBlobLimit, Header::ParlerHead];
const UPLOAD_HEADERS: &[Header] = &[Header::ParlerHead, Header::UploadOffset];
const BLOB_HEADERS: &[Header] = &[Header::AcceptRanges, Header::ETag, Header::ParlerHead];
const PART_HEADERS: &[Header] = &[
    Header::AcceptRanges,
    Header::ContentRange,
    Header::ETag,
    Header::ParlerHead,
];
