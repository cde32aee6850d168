//! A room's refs as its log makes them, message by message: what the hub did when it took each, done again. Knows nothing
//! of what the refs' table says.

use std::collections::BTreeMap;

use parler_protocol::{ObjectFormat, Oid, RefName, RefsPart};

/// The refs after some messages.
#[derive(Debug, Default)]
pub(crate) struct RefFold {
    /// Where each is, and the message that put it there.
    pub(crate) refs: BTreeMap<RefName, (Oid, i64)>,
    pub(crate) object_format: Option<ObjectFormat>,
    pub(crate) head: Option<RefName>,
}

impl RefFold {
    /// Makes the changes of message `seq`. What could not have been taken is told in words, and made all the same.
    pub(crate) fn apply(&mut self, seq: i64, part: &RefsPart) -> Vec<String> {
        let mut faults = Vec::new();
        let format = *self.object_format.get_or_insert(part.object_format);
        if part.object_format != format {
            faults.push(format!(
                "moves refs of format {} in a room of {format}",
                part.object_format
            ));
        }
        for update in &part.updates {
            let actual = self.refs.get(&update.name).map(|(oid, _)| *oid);
            if actual != update.old {
                faults.push(format!(
                    "moves {} from {}, and it was at {}",
                    update.name,
                    place(update.old),
                    place(actual)
                ));
            }
            match update.new {
                Some(oid) => self.refs.insert(update.name.clone(), (oid, seq)),
                None => self.refs.remove(&update.name),
            };
        }
        if part.updates.is_empty() && self.refs.is_empty() {
            // A head alone fixes no format.
            self.object_format = None;
        }
        match &part.head {
            Some(head) if !self.refs.contains_key(head) => {
                faults.push(format!("points HEAD at {head}, which was not there"));
                self.head = Some(head.clone());
            }
            Some(head) => self.head = Some(head.clone()),
            None if self.head.is_none() => self.head = RefsPart::first_head(&part.updates).cloned(),
            None => {}
        }
        faults
    }

    /// Pairs of refs that cannot both exist.
    pub(crate) fn conflicts(&self) -> Vec<(RefName, RefName)> {
        let mut conflicts = Vec::new();
        for name in self.refs.keys() {
            let text = name.as_str();
            for (slash, _) in text.match_indices('/') {
                let above = text[..slash].parse::<RefName>();
                conflicts.extend(
                    above
                        .into_iter()
                        .filter(|above| self.refs.contains_key(above))
                        .map(|above| (above, name.clone())),
                );
            }
        }
        conflicts
    }
}

/// A place in words.
pub(crate) fn place(oid: Option<Oid>) -> String {
    oid.map_or_else(|| "nowhere".to_owned(), |oid| oid.to_string())
}
