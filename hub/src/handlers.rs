//! The calls, one file for each noun of the wire. They turn a request into one transaction of the store and its outcome
//! into an answer, and decide nothing else.

pub(crate) mod blobs;
pub(crate) mod bundles;
pub(crate) mod contacts;
pub(crate) mod cursor;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod invites;
pub(crate) mod members;
pub(crate) mod messages;
pub(crate) mod oidc;
pub(crate) mod openapi;
pub(crate) mod pushes;
pub(crate) mod receipts;
pub(crate) mod refs;
pub(crate) mod rooms;
pub(crate) mod services;
pub(crate) mod sessions;
pub(crate) mod stream;
pub(crate) mod tokens;
pub(crate) mod uploads;
