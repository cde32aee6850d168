//! The cases of `docs/threat-cases.md` that no other test shows: each test's name begins with its case. What is refused
//! leaves not a byte, says one line, and takes little memory and time.

mod forge;
mod from_rooms;
mod helper;
mod hub_as_enemy;
mod hub_as_target;
mod imports;
mod packs;
mod receivers;
mod stage;
mod words;
