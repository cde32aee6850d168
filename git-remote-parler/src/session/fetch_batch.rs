//! A batch of `fetch` lines.

use std::cell::RefCell;
use std::io::Write;

use super::{Looked, Session, SessionError};
use crate::advertisement::{is_pin, room_ref};
use crate::fetch::{Fetched, Fetcher, Want};
use crate::git::whole_line;
use crate::import::PinTiming;
use crate::pins::twins;

/// Up to this many imported bundles are named one by one.
const MAX_NAMED_BUNDLES: usize = 5;

impl<O: Write, E: Write> Session<'_, O, E> {
    pub(super) fn fetch_batch(&mut self, batch: &[Vec<u8>]) -> Result<(), SessionError> {
        let mut wants = Vec::new();
        let mut asks_for_pins = false;
        for line in batch {
            let (oid, name) = super::split_word(line);
            let oid = str::from_utf8(oid).ok().and_then(|oid| oid.parse().ok());
            let oid = oid.ok_or_else(|| SessionError::command(&[b"fetch ", line.as_slice()].concat()))?;
            asks_for_pins |= is_pin(name);
            wants.push(Want {
                oid,
                name: room_ref(name),
            });
        }
        if self.room.is_none() {
            self.look(false)?;
        }
        if self.options.cloning || self.repository.is_none() {
            // `git clone` decides on hash and configuration after it has seen the list.
            self.open_repository()?;
        }
        // A pin that git is about to write itself makes `git clone --mirror` abort, so it is written after git.
        let timing = if asks_for_pins {
            PinTiming::Deferred
        } else {
            PinTiming::Now
        };
        let fetched = self.fetch(&wants, timing)?;
        self.tell_fetched(&fetched);
        self.unpinned.append(fetched);
        self.answer("\n")
    }

    fn fetch(&mut self, wants: &[Want], timing: PinTiming) -> Result<Fetched, SessionError> {
        let policy = self.policy()?;
        let quiet = self.options.is_quiet();
        let errors = RefCell::new(&mut self.errors);
        let notice = |line: &str| {
            if !quiet {
                let _ = writeln!(errors.borrow_mut(), "parler: {}", whole_line(line));
            }
        };
        let (Some(Looked::There(room)), Some(connected)) = (&self.room, &self.connected) else {
            return Err(SessionError::command(b"fetch"));
        };
        let repository = self.repository.as_ref().ok_or(SessionError::NoRepository)?;
        let fetcher = Fetcher::new(repository, &connected.client, &room.state, &policy.fetch)
            .telling(&notice)
            .following_tags(self.options.follows_tags);
        Ok(fetcher.fetch(wants, timing)?)
    }

    fn tell_fetched(&mut self, fetched: &Fetched) {
        if self.options.is_quiet() || fetched.bundles.is_empty() {
            return;
        }
        if let Some((one, other)) = fetched.bundles.iter().find_map(|bundle| twins(&bundle.pins)) {
            let line = format!("warning: {} and {} differ in case alone", one.name, other.name);
            self.say(&line);
        }
        if fetched.bundles.len() > MAX_NAMED_BUNDLES {
            let line = format!("{} bundles pinned under refs/parler/", fetched.bundles.len());
            return self.say(&line);
        }
        for bundle in &fetched.bundles {
            let names: Vec<&str> = bundle.pins.iter().map(|pin| pin.name.as_str()).collect();
            let line = match names.first() {
                Some(first) if bundle.pins.len() <= 2 => format!("bundle {} pinned as {first}", bundle.id.short()),
                _ => format!("bundle {} pinned under refs/parler/", bundle.id.short()),
            };
            self.say(&line);
        }
    }
}
