//! Two sorted lists of refs made one, line by line. What was there stays as it is, byte for byte.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Write};

use parler_protocol::Oid;

use super::{NewRef, Obstacle};
use crate::pins::PIN_ROOT;

/// What git has written since 2.18. It promises order, and a second line for each tag object.
const HEADER: &[u8] = b"# pack-refs with: peeled fully-peeled sorted \n";

/// Copies `old` to `new` with `refs`, which are sorted, in their places; `digits` is the length of an id. Notes in `there`
/// which names below [`PIN_ROOT`] `old` had, and takes from `awaited` the refs that `old` has with that value.
pub(super) fn merge(
    old: &mut dyn BufRead,
    refs: &[NewRef<'_>],
    digits: usize,
    new: &mut dyn Write,
    there: &mut HashSet<String>,
    awaited: &mut HashMap<&str, Oid>,
) -> Result<(), Obstacle> {
    let mut line = Vec::new();
    if old.read_until(b'\n', &mut line)? > 0 && line != HEADER {
        return Err(Obstacle::Unfamiliar(
            "packed-refs does not say that it is sorted and peeled",
        ));
    }
    new.write_all(HEADER)?;
    let mut left = refs.iter().peekable();
    let mut last = Vec::new();
    let mut may_be_peeled = false;
    loop {
        line.clear();
        if old.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if let [b'^', peeled @ .., b'\n'] = line.as_slice() {
            if !std::mem::take(&mut may_be_peeled) || !is_id(peeled, digits) {
                return Err(not_understood());
            }
            new.write_all(&line)?;
            continue;
        }
        let (id, name) = record(&line, digits).ok_or_else(not_understood)?;
        if name <= last.as_slice() {
            return Err(not_understood());
        }
        while let Some(before) = left.next_if(|next| next.name.as_bytes() < name) {
            write_ref(new, before)?;
        }
        if let Some(same) = left.next_if(|next| next.name.as_bytes() == name)
            && same.oid.to_string().as_bytes() != id
        {
            let name = same.name.to_owned();
            return Err(Obstacle::Taken { name });
        }
        if name.starts_with(PIN_ROOT.trim_end_matches('/').as_bytes()) {
            there.insert(String::from_utf8_lossy(name).into_owned());
        }
        if !awaited.is_empty()
            && let Ok(name) = str::from_utf8(name)
            && awaited.get(name).is_some_and(|oid| oid.to_string().as_bytes() == id)
        {
            awaited.remove(name);
        }
        last.clear();
        last.extend_from_slice(name);
        may_be_peeled = true;
        new.write_all(&line)?;
    }
    for rest in left {
        write_ref(new, rest)?;
    }
    Ok(())
}

/// No ref may be a directory of another one: of `refs`, which are sorted, among themselves and with what is `there`.
pub(super) fn check_directories(there: &HashSet<String>, refs: &[NewRef<'_>]) -> Result<(), Obstacle> {
    let is_new = |name: &str| refs.binary_search_by(|new| new.name.cmp(name)).is_ok();
    let above = |name: &str| -> Option<String> {
        let ends = name.match_indices('/').map(|(end, _)| end);
        ends.map(|end| &name[..end])
            .find(|directory| is_new(directory) || there.contains(*directory))
            .map(str::to_owned)
    };
    let names = refs.iter().map(|new| new.name);
    // Whatever is there already is not ours to judge, unless a new one comes above it.
    let mut below_new = there.iter().filter(|name| {
        let ends = name.match_indices('/').map(|(end, _)| end);
        ends.map(|end| &name[..end]).any(is_new)
    });
    match names.filter_map(above).next().or_else(|| below_new.next().cloned()) {
        Some(name) => Err(Obstacle::Taken { name }),
        None => Ok(()),
    }
}

fn not_understood() -> Obstacle {
    Obstacle::Unfamiliar("packed-refs holds what is not understood here")
}

fn is_id(bytes: &[u8], digits: usize) -> bool {
    bytes.len() == digits && bytes.iter().all(u8::is_ascii_hexdigit)
}

/// The id and the name of a line.
fn record(line: &[u8], digits: usize) -> Option<(&[u8], &[u8])> {
    let (id, rest) = line.split_at_checked(digits)?;
    let name = rest.strip_prefix(b" ")?.strip_suffix(b"\n")?;
    (is_id(id, digits) && !name.is_empty()).then_some((id, name))
}

fn write_ref(new: &mut dyn Write, written: &NewRef<'_>) -> std::io::Result<()> {
    writeln!(new, "{} {}", written.oid, written.name)?;
    match &written.peeled {
        Some(peeled) => writeln!(new, "^{peeled}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_ref<'a>(name: &'a str, digit: &str, peeled: Option<&str>) -> NewRef<'a> {
        let oid = |digit: &str| digit.repeat(40).parse().unwrap();
        NewRef {
            name,
            oid: oid(digit),
            peeled: peeled.map(oid),
        }
    }

    fn line(name: &str, digit: &str) -> String {
        format!("{} {name}\n", digit.repeat(40))
    }

    fn merged(old: &str, refs: &[NewRef<'_>]) -> Result<String, Obstacle> {
        let (mut new, mut there) = (Vec::new(), HashSet::new());
        merge(&mut old.as_bytes(), refs, 40, &mut new, &mut there, &mut HashMap::new())?;
        check_directories(&there, refs)?;
        Ok(String::from_utf8(new).unwrap())
    }

    fn header() -> String {
        String::from_utf8(HEADER.to_vec()).unwrap()
    }

    #[test]
    fn new_refs_stand_in_their_places_and_the_rest_is_as_it_was() {
        let peeled = format!("^{}\n", "c".repeat(40));
        let before = [line("refs/heads/main", "a"), line("refs/parler/b", "b")].concat();
        let after = [line("refs/tags/v1", "d"), peeled.clone(), line("refs/zoo", "e")].concat();
        let old = [header(), before.clone(), after.clone()].concat();
        let refs = [
            new_ref("refs/parler/a", "1", None),
            new_ref("refs/parler/b", "b", None),
            new_ref("refs/parler/c", "2", Some("c")),
        ];
        let ours = [line("refs/parler/c", "2"), peeled].concat();
        let expected = [
            header(),
            line("refs/heads/main", "a"),
            line("refs/parler/a", "1"),
            line("refs/parler/b", "b"),
            ours.clone(),
            after,
        ];
        assert_eq!(merged(&old, &refs).unwrap(), expected.concat());
        let alone = [header(), line("refs/parler/a", "1"), line("refs/parler/b", "b"), ours].concat();
        assert_eq!(merged("", &refs).unwrap(), alone);
        assert_eq!(merged(&alone, &refs).unwrap(), alone, "once more changes nothing");
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        let (a, b) = (line("refs/heads/a", "a"), line("refs/heads/b", "b"));
        let peeled = format!("^{}\n", "c".repeat(40));
        for old in [
            "# pack-refs with: peeled \n".to_owned(),
            a.clone(),
            [header(), b.clone(), a.clone()].concat(),
            [header(), a.clone(), a.clone()].concat(),
            [header(), peeled.clone()].concat(),
            [header(), a.clone(), peeled.clone(), peeled.clone()].concat(),
            [header(), a.clone(), "^cc\n".to_owned()].concat(),
            [header(), a.trim_end().to_owned()].concat(),
            [header(), a.replace(' ', "\t")].concat(),
            [header(), a[1..].to_owned()].concat(),
            [header(), "# more\n".to_owned()].concat(),
            [header(), "\n".to_owned()].concat(),
        ] {
            let refused = merged(&old, &[new_ref("refs/parler/a", "1", None)]);
            assert!(matches!(refused, Err(Obstacle::Unfamiliar(_))), "{old:?}: {refused:?}");
        }
    }

    #[test]
    fn another_value_or_a_directory_in_the_way_is_not_overwritten() {
        let refs = [new_ref("refs/parler/a/heads/x", "1", None)];
        for name in [
            "refs/parler/a/heads/x",
            "refs/parler/a",
            "refs/parler/a/heads/x/y",
            "refs/parler",
        ] {
            let refused = merged(&[header(), line(name, "b")].concat(), &refs);
            assert!(matches!(refused, Err(Obstacle::Taken { .. })), "{name}: {refused:?}");
        }
        for name in ["refs/parler/a-b", "refs/parler/a/heads", "refs/parler/a.b/heads/x"] {
            let result = merged(&[header(), line(name, "b")].concat(), &refs);
            assert_eq!(result.is_ok(), name != "refs/parler/a/heads", "{name}");
        }
        let among_themselves = [
            new_ref("refs/parler/a", "1", None),
            new_ref("refs/parler/a/b", "2", None),
        ];
        assert!(merged("", &among_themselves).is_err());
    }
}
