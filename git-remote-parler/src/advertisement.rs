//! What a room shows to git: the lines that answer `list`.

use std::collections::HashSet;
use std::fmt::Write;

use parler_protocol::{BundleRef, BundleRefName, ObjectFormat, Oid, RefName};

use crate::bundle::{HeaderRef, HeaderRefName};
use crate::pins::{PIN_ROOT, pins_of};
use crate::room_state::{RoomBundle, RoomState};

/// The whole answer to `list`, for fetching: the room's refs, HEAD, and each bundle's tips under `refs/parler/`.
///
/// `format` is told when git asked for it; without that git takes everything for SHA-1.
pub(crate) fn for_fetch(state: &RoomState, format: Option<ObjectFormat>) -> String {
    let mut lines = refs(state, format, true);
    let understood = format.unwrap_or(ObjectFormat::Sha1);
    for bundle in state.bundles() {
        let named = bundle_refs(state, bundle);
        // Any member can post a bundle that names anything. A line that git chokes on would close the room to all.
        if named.iter().all(|(_, oid)| oid.format() == understood) && can_coexist(&named) {
            for (name, oid) in named {
                add(&mut lines, format_args!("{oid} {name}"));
            }
        }
    }
    lines.push('\n');
    lines
}

/// The whole answer to `list for-push`: the refs that can be pushed to. Without peeled lines, which `git push --mirror`
/// would take for refs to delete.
pub(crate) fn for_push(state: &RoomState, format: Option<ObjectFormat>) -> String {
    let mut lines = refs(state, format, false);
    lines.push('\n');
    lines
}

/// The whole answer to `list for-push` where nothing is there.
pub(crate) fn nothing(format: Option<ObjectFormat>) -> String {
    format.map_or("\n".to_owned(), |format| format!(":object-format {format}\n\n"))
}

fn add(lines: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(lines, "{line}");
}

/// `for_fetch`: with HEAD, first as every git server has it, and with peeled lines.
fn refs(state: &RoomState, format: Option<ObjectFormat>, for_fetch: bool) -> String {
    let mut lines = String::new();
    if let Some(format) = format {
        add(&mut lines, format_args!(":object-format {format}"));
    }
    let head = state.head_ref().filter(|head| state.refs().contains_key(*head));
    if let Some(head) = head.filter(|_| for_fetch) {
        // A symbolic HEAD is told by its target alone; git resolves it among the other lines.
        add(&mut lines, format_args!("@{head} HEAD"));
    }
    for (name, found) in state.refs() {
        add(&mut lines, format_args!("{} {name}", found.oid));
        // With the peeled line git asks for the tag together with its commit.
        if let Some(peeled) = found.peeled.filter(|_| for_fetch) {
            add(&mut lines, format_args!("{peeled} {name}^{{}}"));
        }
    }
    lines
}

/// What a bundle's tips are called here, which is what their pins are called.
fn bundle_refs(state: &RoomState, bundle: &RoomBundle) -> Vec<(String, Oid)> {
    let short = state.short(bundle.id()).is_some();
    if bundle.refs().is_empty() {
        // Another client's bundle, of which only one tip is known.
        let names = short
            .then(|| bundle.id().short())
            .into_iter()
            .chain([bundle.id().to_string()]);
        return names
            .flat_map(|name| bundle.tips().map(move |oid| (format!("{PIN_ROOT}{name}"), oid)))
            .collect();
    }
    let pins = pins_of(bundle.id(), &header_refs(bundle.refs()), short);
    pins.into_iter().map(|pin| (pin.name, pin.oid)).collect()
}

/// Whether no name is there twice, or a directory of another.
fn can_coexist(named: &[(String, Oid)]) -> bool {
    let mut names = HashSet::new();
    named.iter().all(|(name, _)| names.insert(name.as_str()))
        && named
            .iter()
            .all(|(name, _)| !name.match_indices('/').any(|(slash, _)| names.contains(&name[..slash])))
}

/// The refs of a signed part as they must stand in the bundle's header.
pub(crate) fn header_refs(refs: &[BundleRef]) -> Vec<HeaderRef> {
    let header_ref = |tip: &BundleRef| HeaderRef {
        name: header_ref_name(&tip.name),
        oid: tip.oid,
    };
    refs.iter().map(header_ref).collect()
}

/// A part's ref name as it must stand in the bundle's header.
pub(crate) fn header_ref_name(name: &BundleRefName) -> HeaderRefName {
    match name {
        BundleRefName::Ref(name) => name.into(),
        BundleRefName::Head => "HEAD".parse().expect("git accepts HEAD as a ref name"),
    }
}

/// Whether a ref is one of ours, which nobody pushes.
pub(crate) fn is_pin(name: &[u8]) -> bool {
    name.starts_with(PIN_ROOT.as_bytes())
}

/// The ref that is meant by the name of a `fetch` line, when it is one of the room's.
pub(crate) fn room_ref(name: &[u8]) -> Option<RefName> {
    str::from_utf8(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use parler_protocol::{BundleId, BundlePart, HubId};

    use super::*;

    fn bundle(id: u8, refs: &[&str]) -> BundlePart {
        let bundled = |name: &&str| BundleRef {
            name: name.parse().unwrap(),
            oid: "c".repeat(40).parse().unwrap(),
        };
        BundlePart {
            blob: BundleId::from_digest([id; 32]),
            vcs: "git".into(),
            size: 1,
            media_type: None,
            tip: refs.is_empty().then(|| "d".repeat(40)),
            base: None,
            summary: None,
            refs: refs.iter().map(bundled).collect(),
            prerequisites: Vec::new(),
            object_format: None,
            commits: None,
            objects: None,
            needs: Vec::new(),
            base_hint: None,
        }
    }

    #[test]
    fn bundles_are_shown_to_fetches_alone() {
        let mut state = RoomState::empty(HubId::from_bytes([1; 16]), "x".parse().unwrap());
        let mut large = bundle(6, &["refs/heads/g"]);
        large.refs[0].oid = "e".repeat(64).parse().unwrap();
        state.add_bundles_for_test(&[
            bundle(0xab, &["refs/heads/a"]),
            bundle(1, &["HEAD", "refs/heads/b/c"]),
            bundle(2, &[]),
            bundle(3, &["refs/heads/d", "refs/heads/d/e"]),
            bundle(4, &["HEAD", "refs/HEAD"]),
            bundle(5, &["refs/heads/f", "refs/heads/f"]),
            large,
        ]);
        let shown = for_fetch(&state, Some(ObjectFormat::Sha1));
        let (c, d) = ("c".repeat(40), "d".repeat(40));
        let mut expected = vec![":object-format sha1".to_owned()];
        for id in ["ab".repeat(6), "ab".repeat(32)] {
            expected.push(format!("{c} refs/parler/{id}"));
        }
        for id in ["01".repeat(6), "01".repeat(32)] {
            expected.push(format!("{c} refs/parler/{id}"));
        }
        for id in ["02".repeat(6), "02".repeat(32)] {
            expected.push(format!("{d} refs/parler/{id}"));
        }
        assert_eq!(shown, expected.join("\n") + "\n\n");
        assert_eq!(for_push(&state, None), "\n");
    }
}
