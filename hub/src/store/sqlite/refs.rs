//! A room's refs as its log made them, and the rules a message must keep that moves some: each is where the message
//! expects it, and the final state is one that git can hold. Knows nothing of commits: whether a move loses any is for
//! readers to judge.

use std::collections::{BTreeMap, HashSet};

use parler_protocol::api::{RefEntry, RefList};
use parler_protocol::{AgentId, Head, ObjectFormat, Oid, RefConflict, RefName, RefsPart, RoomName, Seq};
use rusqlite::{Connection, OptionalExtension};

use super::failure::Failure;
use super::rooms::RoomRow;
use super::{column, parsed, rooms, seq_of};
use crate::fail_point::{FailPoint, reached};
use crate::store::{Need, StoreError};

/// Ref changes that have been found allowed.
#[derive(Debug)]
pub(super) struct RefChanges {
    /// The final place of each ref that is changed.
    places: BTreeMap<RefName, Option<Oid>>,
    /// The format to fix, on the first push.
    object_format: Option<ObjectFormat>,
    /// What HEAD is to point at.
    head_ref: Option<RefName>,
}

/// Judges ref changes against the room as it is.
pub(super) fn plan(connection: &Connection, room: &RoomRow, part: &RefsPart) -> Result<RefChanges, Failure> {
    let format = room.object_format.unwrap_or(part.object_format);
    let is_other = |oid: &Option<Oid>| oid.is_some_and(|oid| oid.format() != format);
    if part.object_format != format || part.updates.iter().any(|update| is_other(&update.new)) {
        return Err(StoreError::ObjectFormatMismatch(format).into());
    }

    let mut places: BTreeMap<RefName, Option<Oid>> = BTreeMap::new();
    let mut created = Vec::new();
    let mut conflicts = Vec::new();
    for update in &part.updates {
        // A message changes a ref once; should it do so twice, the second change starts where the first ended.
        let actual = match places.get(&update.name) {
            Some(place) => *place,
            None => current(connection, room.row, update.name.as_str())?,
        };
        if actual != update.old {
            conflicts.push(RefConflict {
                name: update.name.clone(),
                expected: update.old,
                actual,
            });
        }
        if actual.is_none() && update.new.is_some() {
            created.push(&update.name);
        }
        places.insert(update.name.clone(), update.new);
    }
    if !conflicts.is_empty() {
        return Err(StoreError::RefMoved(conflicts).into());
    }

    let state = FinalState {
        connection,
        room: room.row,
        places: &places,
    };
    let mut free = HashSet::new();
    for name in created.into_iter().filter(|name| places[*name].is_some()) {
        state.check_directories(name, &mut free)?;
    }
    let head_ref = match &part.head {
        Some(head) if state.has(head.as_str())? => Some(head.clone()),
        Some(head) => return Err(StoreError::NoSuchRef(head.clone()).into()),
        None if room.head_ref.is_none() => RefsPart::first_head(&part.updates).cloned(),
        None => None,
    };
    let is_first = room.object_format.is_none() && !part.updates.is_empty();
    Ok(RefChanges {
        object_format: is_first.then_some(format),
        head_ref,
        places,
    })
}

impl RefChanges {
    /// Makes the changes, as those of message `seq`.
    pub(super) fn apply(&self, connection: &Connection, room: i64, seq: Seq) -> Result<(), Failure> {
        let mut set = connection.prepare_cached(
            "INSERT INTO refs (room, name, oid, seq) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (room, name) DO UPDATE SET oid = excluded.oid, seq = excluded.seq",
        )?;
        let mut delete = connection.prepare_cached("DELETE FROM refs WHERE room = ?1 AND name = ?2")?;
        for (name, place) in &self.places {
            match place {
                Some(oid) => set.execute((room, name.as_str(), oid.as_bytes(), column(seq)))?,
                None => delete.execute((room, name.as_str()))?,
            };
        }
        reached(FailPoint::RefsMoved);
        if let Some(format) = self.object_format {
            rooms::set_object_format(connection, room, format)?;
        }
        if let Some(head_ref) = &self.head_ref {
            rooms::set_head_ref(connection, room, head_ref)?;
        }
        Ok(())
    }
}

/// The room's refs as they will be.
struct FinalState<'a> {
    connection: &'a Connection,
    room: i64,
    places: &'a BTreeMap<RefName, Option<Oid>>,
}

impl FinalState<'_> {
    fn has(&self, name: &str) -> Result<bool, Failure> {
        // A name that is no ref name is no ref.
        let Ok(parsed) = name.parse::<RefName>() else {
            return Ok(false);
        };
        match self.places.get(&parsed) {
            Some(place) => Ok(place.is_some()),
            None => Ok(current(self.connection, self.room, name)?.is_some()),
        }
    }

    /// Refuses a new ref that would be a directory of another, or lie below one. Looks only at the names above it and at
    /// the range of names below it: a room may have very many others. `free` are names known not to be refs.
    fn check_directories<'n>(&self, name: &'n RefName, free: &mut HashSet<&'n str>) -> Result<(), Failure> {
        let text = name.as_str();
        for (slash, _) in text.match_indices('/').skip(1) {
            let above = &text[..slash];
            if free.contains(above) {
                continue;
            }
            if self.has(above)? {
                let above = above.parse().map_err(|_| Failure::damaged("a ref name"))?;
                return Err(StoreError::RefDirectoryConflict(above, name.clone()).into());
            }
            free.insert(above);
        }
        // '0' follows '/': between `a/` and `a0` lies all that begins with `a/`, and nothing else.
        let mut select = self
            .connection
            .prepare_cached("SELECT name FROM refs WHERE room = ?1 AND name > ?2 || '/' AND name < ?2 || '0'")?;
        let mut rows = select.query((self.room, text))?;
        while let Some(row) = rows.next()? {
            let below: RefName = parsed(row, 0)?;
            if self.places.get(&below).is_none_or(Option::is_some) {
                return Err(StoreError::RefDirectoryConflict(name.clone(), below).into());
            }
        }
        Ok(())
    }
}

/// Where a ref is.
fn current(connection: &Connection, room: i64, name: &str) -> Result<Option<Oid>, Failure> {
    let mut select = connection.prepare_cached("SELECT oid FROM refs WHERE room = ?1 AND name = ?2")?;
    let oid: Option<Vec<u8>> = select.query_row((room, name), |row| row.get(0)).optional()?;
    oid.map(|oid| Oid::from_bytes(&oid).ok_or_else(|| Failure::damaged("an object id")))
        .transpose()
}

/// All refs of a room.
pub(super) fn list(connection: &Connection, room: &RoomName, agent: &AgentId) -> Result<(RefList, Head), Failure> {
    let (room, _) = rooms::for_caller(connection, room, agent, Need::Refs)?;
    let mut select = connection.prepare_cached("SELECT name, oid, seq FROM refs WHERE room = ?1 ORDER BY name")?;
    let mut rows = select.query([room.row])?;
    let mut refs = Vec::new();
    while let Some(row) = rows.next()? {
        let oid: Vec<u8> = row.get(1)?;
        refs.push(RefEntry {
            name: parsed(row, 0)?,
            oid: Oid::from_bytes(&oid).ok_or_else(|| Failure::damaged("an object id"))?,
            seq: seq_of(row.get(2)?),
        });
    }
    let head = room.end.head();
    Ok((
        RefList {
            room: room.name,
            head_ref: room.head_ref,
            object_format: room.object_format,
            refs,
        },
        head,
    ))
}
