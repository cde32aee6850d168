//! A room's refs and bundles as this program knows them: its own fold of the signed messages of the room's log. It
//! takes no hub's word for a ref, and does no I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use parler_protocol::{
    AgentId, BaseHint, BundleId, BundleIdPrefix, BundlePart, BundleRef, Claim, HubId, MessageId, ObjectFormat, Oid,
    RefName, RoomName, Seq,
};

mod fold;
mod kept;
mod verified;

pub use fold::FoldError;

/// A ref of the room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomRef {
    /// What it points at: a commit, or an annotated tag.
    pub oid: Oid,
    /// The commit behind an annotated tag.
    pub peeled: Option<Oid>,
    /// The message that moved it there.
    pub seq: Seq,
    /// The key that signed that message.
    pub mover: AgentId,
    /// What that agent was called then. Text from elsewhere: escape it before it reaches a terminal.
    pub mover_name: String,
    /// Where the commit comes from when no bundle of the room holds it.
    pub base_hint: Option<BaseHint>,
}

/// A bundle of the room, as its author signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomBundle {
    /// The message that is believed about it: the first that names it, unless it is vouched for later.
    pub seq: Seq,
    /// Its author's key.
    pub author_id: AgentId,
    /// What its author was called then. Text from elsewhere: escape it before it reaches a terminal.
    pub author: String,
    /// The part that names it.
    pub part: BundlePart,
}

impl RoomBundle {
    /// The bundle's id.
    pub fn id(&self) -> &BundleId {
        &self.part.blob
    }

    /// The refs that its author says its header has; empty for bundles of other clients, which do not say.
    pub fn refs(&self) -> &[BundleRef] {
        &self.part.refs
    }

    /// What its refs point at, as far as its author said.
    pub fn tips(&self) -> impl Iterator<Item = Oid> {
        let alone = self
            .part
            .refs
            .is_empty()
            .then(|| self.part.tip.as_ref()?.parse().ok())
            .flatten();
        self.part.refs.iter().map(|bundled| bundled.oid).chain(alone)
    }

    /// Whether all that it names can be objects of this hash, as far as its author said. Any member can sign anything.
    pub fn is_of_format(&self, format: ObjectFormat) -> bool {
        let fits = |oid: Oid| oid.format() == format && !oid.is_null();
        self.part.object_format.is_none_or(|own| own == format)
            && self.tips().all(fits)
            && self.part.prerequisites.iter().copied().all(fits)
    }
}

/// The fold of a room's pushes up to one version.
#[derive(Debug, Clone, PartialEq)]
pub struct RoomState {
    hub: HubId,
    room: RoomName,
    version: Seq,
    head_ref: Option<RefName>,
    object_format: Option<ObjectFormat>,
    refs: BTreeMap<RefName, RoomRef>,
    bundles: Vec<RoomBundle>,
    /// Those that the hub no longer keeps, oldest first.
    gone: Vec<RoomBundle>,
    /// What the hub no longer keeps of the room, bundles and files.
    dropped: HashSet<BundleId>,
    /// What tells it from what was gone at another time.
    drops: Option<String>,
    /// When a room of this name was deleted before this one was made, milliseconds since 1970.
    remade: Option<i64>,
    /// Who moved a ref to an object first. Nobody can before its author has shown it.
    first_movers: BTreeMap<Oid, AgentId>,
    /// The messages that moved refs. One of them told again could fit: where a ref is back where it was.
    /// No two of a room have one id.
    moved_by: BTreeSet<MessageId>,
    index: Index,
}

/// What can be looked up; made from the bundles.
#[derive(Debug, Clone, PartialEq, Default)]
struct Index {
    by_id: HashMap<BundleId, usize>,
    by_tip: HashMap<Oid, Vec<usize>>,
    /// As `by_tip`, without the bundles that expect the object of the receiver.
    by_brought: HashMap<Oid, Vec<usize>>,
    by_short: HashMap<[u8; 6], usize>,
}

impl Index {
    fn add(&mut self, position: usize, bundle: &RoomBundle) {
        self.by_id.insert(*bundle.id(), position);
        *self.by_short.entry(short_of(bundle.id())).or_default() += 1;
        let expected: HashSet<&Oid> = bundle.part.prerequisites.iter().collect();
        let add = |positions: &mut Vec<usize>| {
            if positions.last() != Some(&position) {
                positions.push(position);
            }
        };
        for tip in bundle.tips() {
            add(self.by_tip.entry(tip).or_default());
            if !expected.contains(&tip) {
                add(self.by_brought.entry(tip).or_default());
            }
        }
    }
}

fn short_of(id: &BundleId) -> [u8; 6] {
    let bytes = id.as_bytes();
    [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]]
}

impl RoomState {
    /// The state before the first push.
    pub fn empty(hub: HubId, room: RoomName) -> Self {
        Self {
            hub,
            room,
            version: Seq::ZERO,
            head_ref: None,
            object_format: None,
            refs: BTreeMap::new(),
            bundles: Vec::new(),
            gone: Vec::new(),
            dropped: HashSet::new(),
            drops: None,
            remade: None,
            first_movers: BTreeMap::new(),
            moved_by: BTreeSet::new(),
            index: Index::default(),
        }
    }

    /// The hub the room is on.
    pub fn hub(&self) -> &HubId {
        &self.hub
    }

    /// The room, as its maker spelled it.
    pub fn room(&self) -> &RoomName {
        &self.room
    }

    /// The newest message folded in.
    pub fn version(&self) -> Seq {
        self.version
    }

    /// What would be left if the room had no refs, and none but these bundles.
    pub(crate) fn with_bundles(&self, is_kept: impl Fn(&RoomBundle) -> bool) -> Self {
        let mut left = self.clone();
        left.refs.clear();
        left.bundles.retain(is_kept);
        left.index_again();
        left
    }

    /// What HEAD points at. The ref may not exist.
    pub fn head_ref(&self) -> Option<&RefName> {
        self.head_ref.as_ref()
    }

    /// The hash of the room's objects, once something was pushed.
    pub fn object_format(&self) -> Option<ObjectFormat> {
        self.object_format
    }

    /// The refs, by name.
    pub fn refs(&self) -> &BTreeMap<RefName, RoomRef> {
        &self.refs
    }

    /// Which of the rooms of this name it is.
    pub(crate) fn remade(&self) -> Option<i64> {
        self.remade
    }

    /// Notes which of the rooms of this name it is.
    pub(crate) fn note_remade(&mut self, remade: Option<i64>) {
        self.remade = remade;
    }

    /// What tells the bundles that the hub no longer keeps from those of another time.
    pub(crate) fn drops(&self) -> Option<&str> {
        self.drops.as_deref()
    }

    /// Takes in what the hub says it no longer keeps: all of it, or nothing where that is as it was. Such bundles are
    /// neither shown nor planned with; what they moved refs to stays.
    pub(crate) fn note_dropped(&mut self, drops: Option<String>, dropped: Option<&[BundleId]>) {
        self.drops = drops;
        if let Some(dropped) = dropped {
            self.dropped = dropped.iter().copied().collect();
        }
        if self.dropped.is_empty() && self.gone.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.bundles);
        // One that is back has been brought again, by a message that is the one that counts now.
        let back: HashSet<BundleId> = all.iter().map(|bundle| *bundle.id()).collect();
        all.extend(self.gone.drain(..).filter(|bundle| !back.contains(bundle.id())));
        all.sort_by_key(|bundle| bundle.seq);
        (self.gone, self.bundles) = all.into_iter().partition(|bundle| self.dropped.contains(bundle.id()));
        self.index_again();
    }

    /// Whether the hub says that it no longer keeps this blob of the room.
    pub fn is_gone(&self, id: &BundleId) -> bool {
        self.dropped.contains(id)
    }

    /// The bundles whose ids begin so and that the hub no longer keeps, oldest first.
    pub fn gone_matching(&self, prefix: &BundleIdPrefix) -> Vec<&RoomBundle> {
        self.gone.iter().filter(|bundle| prefix.matches(bundle.id())).collect()
    }

    /// The bundles, oldest first.
    pub fn bundles(&self) -> &[RoomBundle] {
        &self.bundles
    }

    /// The bundle with this id.
    pub fn bundle(&self, id: &BundleId) -> Option<&RoomBundle> {
        self.index.by_id.get(id).map(|position| &self.bundles[*position])
    }

    /// The bundles with a ref at this object, oldest first.
    pub fn bundles_at(&self, tip: &Oid) -> impl DoubleEndedIterator<Item = &RoomBundle> + use<'_> {
        self.at(self.index.by_tip.get(tip))
    }

    /// The bundles that bring this object, oldest first: with a ref at it, and without expecting it of the receiver.
    pub fn providers(&self, tip: &Oid) -> impl DoubleEndedIterator<Item = &RoomBundle> + use<'_> {
        self.at(self.index.by_brought.get(tip))
    }

    fn at<'a>(
        &'a self,
        positions: Option<&'a Vec<usize>>,
    ) -> impl DoubleEndedIterator<Item = &'a RoomBundle> + use<'a> {
        positions.into_iter().flatten().map(|position| &self.bundles[*position])
    }

    /// Who moved a ref to this object first.
    pub fn first_mover(&self, oid: &Oid) -> Option<&AgentId> {
        self.first_movers.get(oid)
    }

    /// Whether a bundle is of whoever moved a ref to this object first. Any other member can name anything as a tip.
    pub fn is_vouched(&self, bundle: &RoomBundle, tip: &Oid) -> bool {
        self.first_mover(tip) == Some(&bundle.author_id)
    }

    /// The bundles whose ids begin so, oldest first.
    pub fn bundles_matching(&self, prefix: &BundleIdPrefix) -> Vec<&RoomBundle> {
        self.bundles
            .iter()
            .filter(|bundle| prefix.matches(bundle.id()))
            .collect()
    }

    /// The first 12 digits of a bundle's id, unless another bundle of the room has the same.
    pub fn short(&self, id: &BundleId) -> Option<String> {
        let sharing = self.index.by_short.get(&short_of(id)).copied().unwrap_or_default();
        (sharing <= 1).then(|| id.short())
    }

    /// Folds in messages that came after [`RoomState::version`], each exactly as the hub stores it. Gives what their
    /// authors say to have seen.
    ///
    /// # Errors
    /// [`FoldError`] for the first message that is not to be believed; the state is of no use then.
    pub fn fold(&mut self, messages: &[impl AsRef<[u8]> + Sync]) -> Result<Vec<Claim>, FoldError> {
        let mut claims = Vec::new();
        for some in messages.chunks(verified::AT_ONCE) {
            for checked in verified::read(some, &self.hub) {
                let (message, verdict) = checked.map_err(|why| FoldError::NotAMessage {
                    after: self.version,
                    why,
                })?;
                claims.extend(self.fold_message(&message, verdict)?);
            }
        }
        Ok(claims)
    }

    #[cfg(test)]
    pub(crate) fn add_bundles_for_test(&mut self, parts: &[BundlePart]) {
        for (number, part) in (1..).zip(parts) {
            self.bundles.push(RoomBundle {
                seq: Seq::new(number),
                author_id: parler_protocol::AgentKey::from_random([1; 32]).id(),
                author: "alice".to_owned(),
                part: part.clone(),
            });
        }
        self.index_again();
    }

    /// The author of all bundles for tests moved a ref to this object first.
    #[cfg(test)]
    pub(crate) fn move_for_test(&mut self, oid: Oid) {
        self.first_movers
            .insert(oid, parler_protocol::AgentKey::from_random([1; 32]).id());
    }

    /// Makes this bundle another author's.
    #[cfg(test)]
    pub(crate) fn give_away_for_test(&mut self, id: &BundleId) {
        let position = self.index.by_id[id];
        self.bundles[position].author_id = parler_protocol::AgentKey::from_random([2; 32]).id();
    }

    /// Makes the lookups again, after a state was read from a file.
    pub(crate) fn index_again(&mut self) {
        self.index = Index::default();
        for (position, bundle) in self.bundles.iter().enumerate() {
            self.index.add(position, bundle);
        }
    }
}
