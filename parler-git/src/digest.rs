//! What a reader of a backlog is shown: all of it where it fits on a few screens, else a digest that leads with what is
//! for the reader and says which numbers it left out. Counts nothing that it has not verified as anything but a message.

use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use git_remote_parler::repository::Repository;
use parler_client::Identity;
use parler_protocol::{Message, Part, RefUpdate, RoomName, Seq};

use crate::banner::Banner;
use crate::handoffs::{Handoff, Ledger};
use crate::log_entry::LogEntry;
use crate::screen;
use crate::text::{self, Extent};
use crate::view::{When, render, render_parts};

/// Up to here a backlog is shown whole.
const MOST_LINES: usize = 150;
/// How far handoffs may go whole, and mentions behind them, in a digest.
const HANDOFF_LINES: usize = 90;
const MENTION_LINES: usize = 125;
/// Handoffs that are one line each, behind those that are whole.
const MOST_BRIEF: usize = 20;
/// Messages of one sort that are kept to choose from: more would not fit in any case.
const KEPT: usize = 200;
/// Handoffs that are kept.
const KEPT_HANDOFFS: usize = 1000;
/// Own messages whose signatures are verified to leave them out; further ones are left out by number.
const MOST_OWN: usize = 2000;
/// Ranges of numbers that are named one by one.
const MOST_RANGES: usize = 4;

/// What is unread, sorted while it is read. Holds as much as a digest can show, however long the backlog.
pub(crate) struct Backlog<'m> {
    me: &'m Identity,
    /// The first and the last number.
    span: Option<(Seq, Seq)>,
    handoffs: VecDeque<LogEntry>,
    /// How many older ones are not kept.
    handoffs_cut: usize,
    mentions: VecDeque<LogEntry>,
    rest: VecDeque<LogEntry>,
    ledger: Ledger,
    /// Numbers of messages that this agent wrote itself.
    own: BTreeSet<u64>,
    own_looked_at: usize,
    /// Whether something is not kept.
    is_cut: bool,
}

impl<'m> Backlog<'m> {
    pub(crate) fn new(me: &'m Identity) -> Self {
        Self {
            me,
            span: None,
            handoffs: VecDeque::new(),
            handoffs_cut: 0,
            mentions: VecDeque::new(),
            rest: VecDeque::new(),
            ledger: Ledger::default(),
            own: BTreeSet::new(),
            own_looked_at: 0,
            is_cut: false,
        }
    }

    /// Takes in the next messages, whose authors' standing is known.
    pub(crate) fn add(&mut self, entries: Vec<LogEntry>) {
        // All of them first: what took a handoff up comes after it.
        entries.iter().for_each(|entry| self.ledger.add(entry));
        for mut entry in entries {
            let first = self.span.map_or(entry.seq, |(first, _)| first);
            self.span = Some((first, entry.seq));
            let handoff = self.ledger.handoff(entry.seq);
            entry.is_taken = handoff.is_some_and(|handoff| handoff.is_taken_by(self.me));
            let says_me = |message: &Message| message.from.id == self.me.key.id();
            if self.own_looked_at < MOST_OWN && entry.unverified().is_some_and(says_me) {
                self.own_looked_at += 1;
                if entry.is_by(self.me) {
                    self.own.insert(entry.seq.get());
                    continue;
                }
            }
            let is_handoff = entry.handoff_to(self.me).is_some();
            let (sort, most) = if is_handoff {
                (&mut self.handoffs, KEPT_HANDOFFS)
            } else if entry.mentions(self.me) {
                (&mut self.mentions, KEPT)
            } else {
                (&mut self.rest, KEPT)
            };
            sort.push_back(entry);
            if sort.len() > most {
                sort.pop_front();
                self.is_cut = true;
                self.handoffs_cut += usize::from(is_handoff);
            }
        }
    }

    /// Whether nothing is in it that somebody else wrote.
    pub(crate) fn is_empty(&self) -> bool {
        self.handoffs.is_empty() && self.mentions.is_empty() && self.rest.is_empty()
    }

    /// The handoffs to this agent, newest first.
    pub(crate) fn handoffs(&self) -> impl Iterator<Item = &LogEntry> {
        self.handoffs.iter().rev()
    }

    /// What is shown of it. `room` and `hub` are what commands have to say of both.
    pub(crate) fn render(
        &self,
        banners: &[Banner<'_>],
        room: &RoomName,
        hub: &str,
        repository: Option<&Repository>,
    ) -> String {
        let show = |seq: Seq| format!("git parler show {seq} --room {room}{hub}");
        // Who acknowledged a handoff, finished it or saw it revised elsewhere is not led to it again.
        let (live, settled): (Vec<_>, Vec<_>) = banners.iter().partition(|banner| {
            let handoff = self.ledger.handoff(banner.message.seq);
            handoff.is_none_or(|handoff| handoff.is_open_for(self.me))
        });
        let settled: Vec<_> = settled
            .iter()
            .filter_map(|banner| Some((banner.message.seq, self.fate(self.ledger.handoff(banner.message.seq)?))))
            .collect();
        let whole: Vec<_> = live.iter().map(|banner| block(banner, repository)).collect();
        let lines = |entry: &LogEntry| (entry.seq, render(entry, repository, Extent::Beginning));
        let mentions: Vec<_> = self.mentions.iter().map(lines).collect();
        // An own message that was not looked at before is looked at now.
        let rest: Vec<_> = self
            .rest
            .iter()
            .filter(|entry| !entry.is_by(self.me))
            .map(lines)
            .collect();
        let sorts = whole.iter().chain(mentions.iter().chain(&rest).map(|(_, text)| text));
        let all: usize = sorts.map(|text| height(text)).sum::<usize>() + settled.len();
        if !self.is_cut && all <= MOST_LINES {
            let mut out = whole.concat();
            out.extend(settled.into_iter().map(|(_, text)| text));
            out.extend(mentions.into_iter().chain(rest).map(|(_, text)| text));
            return out;
        }

        let mut page = Page::default();
        let mut brief = 0;
        for (banner, text) in live.iter().zip(&whole) {
            let seq = banner.message.seq;
            if page.lines == 0 || brief == 0 && page.lines + height(text) <= HANDOFF_LINES {
                page.add(seq, text);
            } else if brief < MOST_BRIEF {
                page.add(seq, &one_line(banner, &show(seq)));
                brief += 1;
            }
        }
        for (seq, text) in settled.iter().take(MOST_BRIEF.saturating_sub(brief)) {
            page.add(*seq, text);
        }
        page.add_newest(&mentions, MENTION_LINES);
        page.add_newest(&rest, MOST_LINES);
        let is_left = |entry: &&LogEntry| !page.shown.contains(&entry.seq.get());
        let handoffs_left = self.handoffs_cut + self.handoffs.iter().filter(is_left).count();
        if handoffs_left > 0 {
            let count = text::count(handoffs_left as u64, "handoff");
            page.text.push_str(&format!("{count} to you among what is left out\n"));
        }
        page.text.push_str(&self.left_out(&page.shown, room, hub));
        page.text
    }

    /// What became of a handoff that nothing more is expected of, on a line.
    fn fate(&self, handoff: &Handoff) -> String {
        let from = text::name(&handoff.from.name);
        let before = format!("handoff {} from ", handoff.seq);
        let newest = self.ledger.newest(handoff.seq);
        if newest != handoff.seq {
            return screen::fit(&before, &from, &format!(": superseded by message {newest}\n"));
        }
        let by = handoff.holder().map(|receipt| {
            let who = text::name(&receipt.from.name);
            format!(" by {} in message {}", screen::third(&who), receipt.seq)
        });
        let word = handoff.state().word();
        screen::fit(&before, &from, &format!(": {word}{}\n", by.unwrap_or_default()))
    }

    /// The lines that name what is not shown, and the commands that show it.
    fn left_out(&self, shown: &BTreeSet<u64>, room: &RoomName, hub: &str) -> String {
        let Some((first, last)) = self.span else {
            return String::new();
        };
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        let mut count = 0;
        // Where the digest ends a range: at what it shows. Own messages are passed over, and end none.
        for seq in first.get()..=last.get() {
            if self.own.contains(&seq) {
                continue;
            }
            if shown.contains(&seq) {
                continue;
            }
            count += 1;
            let extended = ranges.last().map(|range| (*range.start(), *range.end()));
            match extended {
                Some((start, end)) if shown.range(end..seq).next().is_none() => {
                    ranges.pop();
                    ranges.push(start..=seq);
                }
                _ => ranges.push(seq..=seq),
            }
        }
        if ranges.is_empty() {
            return String::new();
        }
        let named = |range: &RangeInclusive<u64>| match range.start() == range.end() {
            true => range.start().to_string(),
            false => format!("{}-{}", range.start(), range.end()),
        };
        let command = |range: &RangeInclusive<u64>| {
            let (since, limit) = (range.start() - 1, range.end() - range.start() + 1);
            format!("  git parler log --reverse --since {since} --limit {limit} --room {room}{hub}\n")
        };
        let mut numbers: Vec<_> = ranges.iter().take(MOST_RANGES).map(named).collect();
        if ranges.len() > MOST_RANGES {
            numbers.push(format!("and {} more ranges", ranges.len() - MOST_RANGES));
        }
        let noun = text::count(count, "message");
        let mut out = format!("left out: {noun}, {}\n", numbers.join(", "));
        match ranges.len() <= MOST_RANGES {
            true => out.extend(ranges.iter().map(command)),
            false => {
                let (from, to) = (*ranges[0].start(), ranges.last().map_or(0, |range| *range.end()));
                out.push_str(&command(&(from..=to)));
            }
        }
        out
    }
}

/// Lines that are going to be shown.
#[derive(Default)]
struct Page {
    text: String,
    lines: usize,
    shown: BTreeSet<u64>,
}

impl Page {
    fn add(&mut self, seq: Seq, text: &str) {
        self.text.push_str(text);
        self.lines += height(text);
        self.shown.insert(seq.get());
    }

    /// Adds the newest of these that fit, in their order; one in any case.
    fn add_newest(&mut self, entries: &[(Seq, String)], most: usize) {
        let mut lines = self.lines;
        let fitting = entries.iter().rev().enumerate().take_while(|(index, (_, text))| {
            lines += height(text);
            *index == 0 || lines <= most
        });
        let count = fitting.count();
        for (seq, text) in &entries[entries.len() - count..] {
            self.add(*seq, text);
        }
    }
}

fn height(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// A banner, and what else its message says.
fn block(banner: &Banner<'_>, repository: Option<&Repository>) -> String {
    let mut out = banner.render(Extent::Beginning);
    let mut cut = false;
    let others = banner.message.parts.iter().filter(|part| !is_told_by(banner, part));
    let when = When::Said(banner.message, banner.read_at);
    out.push_str(&render_parts(
        others,
        &[],
        repository,
        when,
        Extent::Beginning,
        &mut cut,
    ));
    if cut {
        out.push_str(&crate::view::more(banner.message));
    }
    out.push('\n');
    out
}

/// Whether a banner tells of this part of its message: the handoff, its bundle, and the refs that move to what that brings.
fn is_told_by(banner: &Banner<'_>, part: &Part) -> bool {
    match part {
        Part::Handoff(part) => std::ptr::eq(part, banner.handoff),
        Part::Bundle(part) => banner.bundle.is_some() && Some(part.blob) == banner.handoff.bundle,
        Part::Refs(part) => {
            let brought = |update: &RefUpdate| {
                let bundles = banner.message.parts.iter().filter_map(|part| match part {
                    Part::Bundle(bundle) if Some(bundle.blob) == banner.handoff.bundle => Some(bundle),
                    _ => None,
                });
                let mut refs = bundles.flat_map(|bundle| &bundle.refs);
                !update.forced && refs.any(|bundled| Some(bundled.oid) == update.new)
            };
            banner.handoff.bundle.is_none() || part.updates.iter().all(brought)
        }
        _ => false,
    }
}

/// A handoff on a line.
fn one_line(banner: &Banner<'_>, command: &str) -> String {
    let from = text::name_and_role(&banner.message.from.name, banner.message.from.role.as_deref());
    let next = text::beginning(&banner.handoff.next);
    let before = format!("handoff {} from {}: ", banner.message.seq, screen::third(&from));
    screen::fit(&before, &next, &format!(" · {command}\n"))
}

#[cfg(test)]
mod tests {
    use parler_protocol::{BundleId, FilePart, HandoffPart, ObjectFormat, RefsPart, TextPart};

    use super::*;
    use crate::bundles::BundleView;
    use crate::bundles::tests::part as bundle;
    use crate::log_entry::tests::{entry, identity};

    fn moves(updates: &[(&str, &str, bool)]) -> Part {
        let update = |(name, new, forced): &(&str, &str, bool)| RefUpdate {
            name: name.parse().unwrap(),
            old: None,
            new: Some(new.repeat(40).parse().unwrap()),
            forced: *forced,
            peeled: None,
        };
        RefsPart {
            updates: updates.iter().map(update).collect(),
            atomic: false,
            object_format: ObjectFormat::Sha1,
            head: None,
            base_hint: None,
        }
        .into()
    }

    /// Also where there are more than are kept.
    #[test]
    fn every_handoff_is_shown_or_counted() {
        const HANDOFFS: u64 = KEPT_HANDOFFS as u64 + 10;
        let (alice, bob) = (identity(1, "alice", None), identity(2, "bob", None));
        let mut backlog = Backlog::new(&bob);
        let handoff = HandoffPart {
            next: "look".into(),
            ..HandoffPart::default()
        };
        for seq in 1..=HANDOFFS {
            backlog.add(vec![entry(&alice, seq, vec![handoff.clone().into()], |_| ())]);
        }
        let banner = |entry| {
            let (message, handoff) = LogEntry::handoff_to(entry, &bob).unwrap();
            Banner {
                message,
                handoff,
                read_at: 0,
                bundle: None,
                risks: None,
                apply: None,
            }
        };
        let banners: Vec<_> = backlog.handoffs().map(banner).collect();
        let page = backlog.render(&banners, &"build".parse().unwrap(), "", None);
        let page = anstream::adapter::strip_str(&page).to_string();
        let is_shown = |line: &&str| line.starts_with("HANDOFF TO YOU") || line.starts_with("handoff ");
        let shown = page.lines().filter(is_shown).count() as u64;
        let left = HANDOFFS - shown;
        for line in [
            format!("{left} handoffs to you among what is left out\n"),
            format!("left out: {left} messages, 1-{left}\n"),
        ] {
            assert!(page.contains(&line), "{line}: {page}");
        }
    }

    fn shown(more: Vec<Part>) -> String {
        let (alice, bob) = (identity(1, "alice", None), identity(2, "bob", None));
        let handoff = HandoffPart {
            next: "look".into(),
            bundle: Some(bundle().blob),
            ..HandoffPart::default()
        };
        let parts = [bundle().into(), handoff.into()].into_iter().chain(more).collect();
        let entry = entry(&alice, 5, parts, |_| ());
        let (message, handoff) = entry.handoff_to(&bob).unwrap();
        let banner = Banner {
            message,
            handoff,
            read_at: 0,
            bundle: Some(BundleView::of(&bundle(), None)),
            risks: None,
            apply: None,
        };
        anstream::adapter::strip_str(&block(&banner, None)).to_string()
    }

    #[test]
    fn a_banner_hides_nothing_of_its_message() {
        let usual = shown(vec![moves(&[("refs/heads/feature", "a", false)])]);
        assert!(
            usual.starts_with("HANDOFF TO YOU") && !usual.contains("ref:"),
            "{usual}"
        );
        assert_eq!(
            usual.lines().filter(|line| line.contains("bundle:")).count(),
            1,
            "{usual}"
        );
        let forced = moves(&[("refs/heads/feature", "a", false), ("refs/heads/main", "a", true)]);
        let file = FilePart {
            blob: BundleId::of(b"notes"),
            name: "notes.txt".into(),
            size: 5,
            media_type: None,
            summary: None,
        };
        let second = HandoffPart {
            next: "and this".into(),
            ..HandoffPart::default()
        };
        let words = TextPart { text: "thanks".into() };
        let all = shown(vec![forced, file.into(), second.into(), words.into()]);
        for line in ["refs/heads/main new", "notes.txt", "and this", "│ thanks"] {
            assert!(all.contains(line), "{line}: {all}");
        }
    }
}
