//! Repositories read, bundles made and bundles imported, with real git in temporary directories.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod accepted;
mod bundle;
mod child;
mod concurrent;
mod few_pins;
mod held_back;
mod joined;
mod large_packs;
#[cfg(target_os = "linux")]
mod limits;
mod many_pins;
mod rejected;
mod repository;
mod sandbox;
mod small_packs;
mod snapshot;
mod vouching;
