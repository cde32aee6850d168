//! A hub as its clients see it: one method a call of `docs/protocol.md`.
//!
//! The methods block: whoever hands work over does one thing after the other. Every wait has a deadline, an expired
//! session is renewed on the way, and what can be sent twice without harm is sent again when an answer is lost. The
//! crate prints nothing and keeps nothing on disk; where a session is cached is the caller's choice
//! ([`SessionCache`]).

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

mod address;
mod attachment;
mod beside;
mod blob_source;
mod bundle_stream;
mod calls;
mod certificate;
mod error;
mod event_stream;
mod exchange;
mod health;
mod hint_stream;
mod identity_request;
mod options;
mod pace;
mod patience;
mod request;
mod rests;
mod revive;
mod services;
mod session;
mod sse;
mod sse_response;
mod stop;
mod tls;
mod trace;
mod upload_body;
mod witness;

pub use address::{AddressError, HubAddress};
pub use attachment::{Attachment, ONE_REQUEST_BYTES};
pub use blob_source::BlobSource;
pub use bundle_stream::{BlobReader, BundleReader, BundleStream};
pub use calls::{PushesAnswer, ReadFrom};
pub use error::ClientError;
pub use event_stream::{EventStream, Streamed};
pub use exchange::Client;
pub use health::Health;
pub use hint_stream::{HintStream, Hinted};
pub use identity_request::{IdentityRequestError, request_identity_token};
pub use options::{ClientOptions, Deadlines};
pub use rests::rests_of_a_stream;
pub use revive::{Revive, Revived};
pub use session::{CachedSession, Identity, NoSessionCache, SessionCache};
pub use stop::Stopper;
pub use witness::{Asked, NoWitness, Witness};
