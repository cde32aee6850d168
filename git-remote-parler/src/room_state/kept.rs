//! A room's state as the cache writes it down: each agent once. Spelled with every ref and bundle, reading the keys again
//! was most of what a large room cost. Not a format for anybody else.

use std::borrow::Cow;
use std::collections::HashMap;

use parler_protocol::{
    AgentId, BaseHint, BundleId, BundlePart, HubId, MessageId, ObjectFormat, Oid, RefName, RoomName, Seq,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{RoomBundle, RoomRef, RoomState};

#[derive(Serialize, Deserialize)]
struct Kept<'a> {
    hub: HubId,
    room: Cow<'a, RoomName>,
    version: Seq,
    head_ref: Option<Cow<'a, RefName>>,
    object_format: Option<ObjectFormat>,
    /// Each agent under each name it had; the others say which one by its position.
    agents: Vec<(AgentId, Cow<'a, str>)>,
    refs: Vec<KeptRef<'a>>,
    bundles: Vec<(Seq, usize, Cow<'a, BundlePart>)>,
    first_movers: Vec<(Oid, usize)>,
    moved_by: Vec<MessageId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gone: Vec<(Seq, usize, Cow<'a, BundlePart>)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<BundleId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drops: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remade: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct KeptRef<'a>(
    Cow<'a, RefName>,
    Oid,
    Option<Oid>,
    Seq,
    usize,
    Option<Cow<'a, BaseHint>>,
);

/// Numbers agents as they come.
#[derive(Default)]
struct Agents<'a> {
    list: Vec<(AgentId, Cow<'a, str>)>,
    named: HashMap<(AgentId, &'a str), usize>,
    any: HashMap<AgentId, usize>,
}

impl<'a> Agents<'a> {
    fn number(&mut self, id: AgentId, name: &'a str) -> usize {
        let next = self.list.len();
        let number = *self.named.entry((id, name)).or_insert(next);
        if number == next {
            self.list.push((id, Cow::Borrowed(name)));
            self.any.entry(id).or_insert(number);
        }
        number
    }

    /// The number of an agent whatever it was called.
    fn any(&mut self, id: AgentId) -> usize {
        match self.any.get(&id) {
            Some(number) => *number,
            None => self.number(id, ""),
        }
    }
}

fn numbered<'a>(agents: &mut Agents<'a>, bundles: &'a [RoomBundle]) -> Vec<(Seq, usize, Cow<'a, BundlePart>)> {
    let numbered = bundles.iter().map(|bundle| {
        let author = agents.number(bundle.author_id, &bundle.author);
        (bundle.seq, author, Cow::Borrowed(&bundle.part))
    });
    numbered.collect()
}

impl Serialize for RoomState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut agents = Agents::default();
        let refs = self.refs.iter().map(|(name, found)| {
            let mover = agents.number(found.mover, &found.mover_name);
            let hint = found.base_hint.as_ref().map(Cow::Borrowed);
            KeptRef(Cow::Borrowed(name), found.oid, found.peeled, found.seq, mover, hint)
        });
        let refs = refs.collect();
        let bundles = numbered(&mut agents, &self.bundles);
        let gone = numbered(&mut agents, &self.gone);
        let movers = self.first_movers.iter().map(|(oid, mover)| (*oid, agents.any(*mover)));
        let first_movers = movers.collect();
        let kept = Kept {
            hub: self.hub,
            room: Cow::Borrowed(&self.room),
            version: self.version,
            head_ref: self.head_ref.as_ref().map(Cow::Borrowed),
            object_format: self.object_format,
            agents: agents.list,
            refs,
            bundles,
            first_movers,
            moved_by: self.moved_by.iter().copied().collect(),
            gone,
            dropped: self.dropped.iter().copied().collect(),
            drops: self.drops.clone(),
            remade: self.remade,
        };
        kept.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RoomState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let kept = Kept::deserialize(deserializer)?;
        let agent = |number: usize| {
            let found = kept.agents.get(number);
            found.ok_or_else(|| D::Error::custom("an agent that is not there"))
        };
        let mut state = Self::empty(kept.hub, kept.room.into_owned());
        state.version = kept.version;
        state.head_ref = kept.head_ref.map(Cow::into_owned);
        state.object_format = kept.object_format;
        for KeptRef(name, oid, peeled, seq, mover, base_hint) in kept.refs {
            let (mover, mover_name) = agent(mover)?;
            let found = RoomRef {
                oid,
                peeled,
                seq,
                mover: *mover,
                mover_name: mover_name.clone().into_owned(),
                base_hint: base_hint.map(Cow::into_owned),
            };
            state.refs.insert(name.into_owned(), found);
        }
        let bundle = |(seq, author, part): (Seq, usize, Cow<'_, BundlePart>)| {
            let (author_id, author) = agent(author)?;
            Ok(RoomBundle {
                seq,
                author_id: *author_id,
                author: author.clone().into_owned(),
                part: part.into_owned(),
            })
        };
        state.bundles = kept.bundles.into_iter().map(bundle).collect::<Result<_, D::Error>>()?;
        state.gone = kept.gone.into_iter().map(bundle).collect::<Result<_, D::Error>>()?;
        state.moved_by = kept.moved_by.into_iter().collect();
        state.dropped = kept.dropped.into_iter().collect();
        state.drops = kept.drops;
        state.remade = kept.remade;
        for (oid, mover) in kept.first_movers {
            state.first_movers.insert(oid, agent(mover)?.0);
        }
        state.index_again();
        Ok(state)
    }
}
