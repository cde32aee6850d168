//! Remote-helper sessions against a real hub in this process and real repositories, spoken to as git speaks to them.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

#[path = "../import/sandbox.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "shared with the import suite, which uses all of it"
)]
mod sandbox;
mod world;

mod bases;
mod cuts;
mod dishonest;
mod fetching;
mod protocol;
mod pushing;
mod riders;
