//! What the suite's tests share: a hub, agents that talk to it in plain HTTP, and messages to post.

mod agent;
mod answer;
mod deadline;
mod http;
mod hub;
mod noise;
pub(crate) mod openapi;
mod program;
mod push;

pub(crate) use agent::Agent;
pub(crate) use answer::Answer;
pub(crate) use deadline::{in_time, until};
pub(crate) use http::{ask_closing, cut_off, raw, request};
pub(crate) use hub::TestHub;
pub(crate) use noise::bytes;
pub(crate) use program::{RunningProgram, program};
pub(crate) use push::{Push, oid, text_message};
