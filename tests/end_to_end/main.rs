//! What people and agents do, from end to end: real git, the built programs, a real hub, real repositories. Each test
//! has a world of its own, and fails when what it shows stops being true.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod addresses;
mod bad_input;
mod bundle_files;
mod bundle_interplay;
mod catalogue;
mod ci;
mod ci_documents;
mod ci_expiry;
mod ci_reports;
mod ci_schemas;
mod costs;
mod counts;
mod cut_commands;
mod delivery;
mod demo;
mod direct;
mod dishonest_hub;
mod doctor;
mod downloads;
mod ended_children;
mod ended_commands;
mod errors;
mod fetch_matrix;
mod fetches_at_once;
mod fetches_interrupted;
mod fetching;
mod files;
mod forgotten_modules;
mod full_places;
mod gone_readers;
mod handoff_life;
mod histories;
mod hooks;
mod hostile_bundles;
mod hub_server;
mod identity;
mod interrupted;
mod json;
mod killed_client;
mod killed_hub;
mod large_room;
mod limits;
mod local_hub_life;
mod manuals;
mod mcp;
mod memberships;
mod memory;
mod meters;
mod no_room;
mod odd_histories;
mod oidc;
mod outboxes;
mod push_flags;
mod push_matrix;
mod push_options;
mod push_places;
mod race;
mod reading;
mod ref_names;
mod refs;
mod rendering;
mod repositories;
mod repository_matrix;
mod restarted_hub;
mod retention;
mod risks;
mod room_head;
mod secrets;
mod serve;
mod serve_by_hand;
mod serve_canaries;
mod serve_hostile;
mod serve_soak;
mod serve_troubles;
mod services;
mod several_machines;
mod shallow;
mod side_by_side;
mod signatures;
mod slow_hubs;
mod smart_http;
mod story;
mod tags;
mod thin;
mod tls;
mod tokens;
mod told_twice;
mod traces;
mod unsupported;
mod untouched;
mod watching;
mod widths;
mod zero_configuration;

use parler_harness::{Agent, World, noise};

/// A new world with the program as it was just built.
fn world() -> World {
    World::new(env!("CARGO_BIN_EXE_git-parler"))
}

/// Where test data that is long in the making is kept between runs.
const CACHE: &str = env!("CARGO_TARGET_TMPDIR");

/// The refs that a room shows to this agent.
#[track_caller]
fn room_refs(agent: &Agent<'_>, room: &str) -> std::collections::BTreeMap<String, String> {
    let mut refs = agent
        .git(["ls-remote", &format!("parler::room/{room}")])
        .success()
        .listed_refs();
    refs.retain(|name, _| !name.starts_with("refs/parler/"));
    refs
}

/// No history of this agent's rooms was ever in doubt, and no member shown another: what was, is remembered.
#[track_caller]
fn no_doubts(agent: &Agent<'_>) {
    let rooms = agent.parler("rooms --json").success();
    rooms.warns_no("warning");
    let list = rooms.json()["rooms"].clone();
    for room in list.as_array().unwrap() {
        assert!(room["history"].is_null(), "{room}");
        let name = room["room"].as_str().unwrap();
        agent
            .parler(["recv", "--all", "--room", name])
            .success()
            .warns_no("warning");
        let known = agent.parler(["trust", "--json", "--room", name]).success().json();
        assert!(known["history"].is_null(), "{known}");
        assert_eq!(
            known["verified"]["seq"], known["told"]["seq"],
            "everything was hashed: {known}"
        );
    }
}
