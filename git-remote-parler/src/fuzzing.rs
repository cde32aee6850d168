//! What must hold of any bytes that senders, and git, put before this crate. Called by the targets of `tests/fuzz` and,
//! with their seeds, by ordinary tests; in no other build.

use std::error::Error;
use std::sync::Arc;

use gix::ObjectId;
use gix::hash::{Kind, oid};
use parler_client::Client;
use parler_protocol::{BundleId, DispatchPart, RoomName, ServiceName, is_hidden};

use crate::address::{Address, Destination, HubChoice};
use crate::bundle::{BundleHeader, HeaderEnd, find_header_end};
use crate::git::one_line;
use crate::pack::entries::{Budget, PackFlaw, checksum_of};
use crate::pack::resolve::{Object, resolve};
use crate::pack::scan::{PackScan, ScanLimits};
use crate::pack::{PACK_HEADER_BYTES, object_count};
use crate::pins::{PIN_ROOT, pins_of};
use crate::repository::{Repository, RepositoryError};
use crate::session::{Connected, Session, Surroundings};

/// What the objects of a pack may take here, in bytes.
const ROOM_BYTES: u64 = 256 << 10; // 256 KiB

fn assert_visible(line: &str) {
    assert!(!line.chars().any(is_hidden), "{line:?} hides something");
}

/// The beginning of a bundle.
pub fn bundle_header(bytes: &[u8]) {
    let found = find_header_end(bytes, 0);
    // It comes in pieces, and what was looked at is not looked at again.
    for searched in [1, bytes.len() / 2, bytes.len().saturating_sub(1)] {
        if find_header_end(&bytes[..searched.min(bytes.len())], 0) == Ok(HeaderEnd::NotYet) {
            assert_eq!(find_header_end(bytes, searched), found, "after {searched} bytes");
        }
    }
    let end = match found {
        Ok(HeaderEnd::At(end)) => end,
        Ok(HeaderEnd::NotYet) => return,
        Err(error) => return assert_visible(&error.to_string()),
    };
    let header = match BundleHeader::parse(&bytes[..end]) {
        Ok(header) => header,
        Err(error) => return assert_visible(&error.to_string()),
    };
    assert_eq!(
        BundleHeader::parse(&header.to_bytes()).as_ref(),
        Ok(&header),
        "reads back as another"
    );
    let id = BundleId::of(bytes);
    let pins = pins_of(&id, &header.refs, true);
    let mut names: Vec<&str> = pins.iter().map(|pin| pin.name.as_str()).collect();
    for name in &names {
        let below = name.strip_prefix(PIN_ROOT).expect("a pin is a pin");
        assert!(below.starts_with(&id.short()), "{name:?} is another bundle's");
        assert!(gix::validate::reference::name((*name).into()).is_ok(), "{name:?}");
    }
    names.sort_unstable();
    assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
}

/// A pack. The first byte says which hash it is of, and whether its checksum is made right, without which nothing is
/// looked at; the second in what pieces it comes.
pub fn pack(bytes: &[u8]) {
    let &[how, piece, ref pack @ ..] = bytes else { return };
    let hash = if how & 1 == 0 { Kind::Sha1 } else { Kind::Sha256 };
    let mut pack = pack.to_vec();
    if how & 2 == 0 && pack.len() >= PACK_HEADER_BYTES {
        let Ok(checksum) = checksum_of(&pack, hash) else { return };
        pack.extend_from_slice(checksum.as_slice());
    }
    let base = Arc::new(Object {
        id: ObjectId::null(hash),
        kind: gix::objs::Kind::Blob,
        content: b"0123456789".to_vec(),
    });
    let sizes = |id: &oid| (id == base.id).then(|| base.content.len() as u64);
    let scan = |piece: usize| {
        let limits = ScanLimits {
            object_bytes: ROOM_BYTES,
            held_bytes: ROOM_BYTES,
            all_bytes: ROOM_BYTES,
            objects: ROOM_BYTES,
        };
        let mut scan = PackScan::new(hash, pack.len() as u64, limits, &sizes);
        pack.chunks(piece).try_for_each(|piece| scan.feed(piece))?;
        scan.finish()
    };
    let scanned = scan(pack.len().max(1));
    assert_eq!(scan(usize::from(piece).max(1)), scanned, "in pieces of {piece}");
    if let Err(flaw) = &scanned {
        assert_visible(&flaw.to_string());
    }
    let mut outside = |id: &oid, _: &mut Budget| Ok((id == base.id).then(|| Arc::clone(&base)));
    let mut budget = Budget::of(ROOM_BYTES);
    let resolved = match resolve(&pack, hash, &mut outside, &mut budget) {
        Ok(resolved) => resolved,
        Err(flaw) => return assert_visible(&flaw.to_string()),
    };
    assert_eq!(Some(resolved.len()), object_count(&pack).map(|count| count as usize));
    let largest = resolved.iter().map(|entry| entry.object.content.len() as u64).max();
    match scanned {
        Ok(told) => assert!(largest <= Some(told), "{told} bytes at most, and there are {largest:?}"),
        // Nothing but this is looked at by the scan alone.
        Err(flaw) => assert_eq!(flaw, PackFlaw::TooDeep),
    }
    let mut held = 0;
    for entry in &resolved {
        let object = &entry.object;
        assert_eq!(
            gix::objs::compute_hash(hash, object.kind, &object.content).ok(),
            Some(object.id)
        );
        held += object.content.len() as u64;
        if entry.base.is_some() {
            held += entry.inflated_bytes;
        }
    }
    assert!(
        held <= ROOM_BYTES && budget == Budget::of(ROOM_BYTES - held),
        "{held} bytes, {budget:?}"
    );
    // With a byte less it would not have been taken.
    let less = held
        .checked_sub(1)
        .map(|less| resolve(&pack, hash, &mut outside, &mut Budget::of(less)).err());
    assert!(matches!(less, None | Some(Some(PackFlaw::TooLarge))), "{less:?}");
}

/// No repository, and no hub: what is left is what git and the helper say to each other.
struct Nowhere;

impl Surroundings for Nowhere {
    fn repository(&self) -> Result<Option<Repository>, RepositoryError> {
        Ok(None)
    }

    fn connect(&self, _hub: &HubChoice) -> Result<Connected, Box<dyn Error + Send + Sync>> {
        Err("no hub".into())
    }

    fn direct_room(&self, _client: &Client, _agent: &str) -> Result<RoomName, Box<dyn Error + Send + Sync>> {
        Err("no agent".into())
    }

    fn dispatch(&self, _service: &ServiceName) -> Result<DispatchPart, Box<dyn Error + Send + Sync>> {
        Ok(DispatchPart::default())
    }
}

/// What git, or who plays it, writes to the helper. Each line that is answered is answered in the protocol's own words.
pub fn helper_input(input: &[u8]) {
    let address = Address::parse("room/x", |_| false).expect("the address of a room");
    let (mut said, mut told) = (Vec::new(), Vec::new());
    let result = Session::run(input, &mut said, &mut told, &address, &Nowhere);
    let count = |prefix: &[u8]| {
        let lines = input.split(|byte| *byte == b'\n');
        lines.filter(|line| line.starts_with(prefix)).count()
    };
    assert!(said.is_empty() || said.ends_with(b"\n"), "half a line");
    let mut statuses = 0;
    for line in said.split(|byte| *byte == b'\n') {
        match line {
            b"" | b"fetch" | b"push" | b"option" | b"object-format" | b"ok" | b"unsupported" => {}
            line if line.starts_with(b"ok ") || line.starts_with(b"error ") => statuses += 1,
            line => panic!("{:?} is not of the protocol", one_line(line)),
        }
    }
    assert!(
        statuses <= count(b"push ") + count(b"option "),
        "{statuses} lines nobody asked for"
    );
    let told = String::from_utf8(told).expect("people are told text");
    for line in told.lines() {
        assert_visible(line);
        assert!(
            line.starts_with("parler: ") || line.starts_with("warning: "),
            "{line:?} is not a line of ours"
        );
    }
    if let Err(error) = result {
        assert_visible(&error.to_string());
    }
}

/// A text as the address of a remote, in a hub's own words too.
pub fn address(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    // Plain http is allowed to half of all hosts.
    let insecure = |authority: &str| authority.len().is_multiple_of(2);
    let parsed = Address::parse(text, insecure);
    assert_eq!(Address::from_arguments("team", Some(text), insecure), parsed);
    let address = match parsed {
        Ok(address) => address,
        Err(error) => {
            let error = error.to_string();
            assert_visible(&error);
            let password = text.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
            let password = password
                .and_then(|(user, _)| user.rsplit_once(':'))
                .map(|(_, password)| password);
            // One that our own words could hold tells nothing.
            let is_secret =
                |password: &str| password.len() > 8 && password.contains(|char: char| char.is_ascii_digit());
            let is_told = password.is_some_and(|password| is_secret(password) && error.contains(password));
            return assert!(!is_told, "a password is told: {error:?}");
        }
    };
    assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
    // An agent's name may have one.
    assert!(
        !text.contains('@') || matches!(address.destination, Destination::Dm(_)),
        "{text:?}"
    );
    let destination = match &address.destination {
        Destination::Room(room) => format!("room/{room}"),
        Destination::Service(service) => format!("service/{service}"),
        Destination::Dm(agent) => format!("dm/{agent}"),
    };
    let written = match &address.hub {
        HubChoice::Configured => destination,
        HubChoice::At(hub) => {
            assert!(
                hub.is_https() || hub.is_loopback() || insecure(&hub.authority()),
                "plain http: {hub}"
            );
            format!("{hub}/{destination}")
        }
    };
    assert_eq!(
        Address::parse(&written, insecure),
        Ok(address),
        "{written:?} of {text:?}"
    );
}

/// Bytes that git wrote, as they are shown.
pub fn shown_line(bytes: &[u8]) {
    let line = one_line(bytes);
    assert_visible(&line);
    if !line.ends_with("..") {
        assert_eq!(one_line(line.as_bytes()), line);
    }
}

#[cfg(test)]
mod tests {
    use parler_harness::each_seed;

    #[test]
    fn the_seeds_of_bundle_headers_hold() {
        each_seed("bundle_header", super::bundle_header);
    }

    #[test]
    fn the_seeds_of_packs_hold() {
        each_seed("pack", super::pack);
    }

    #[test]
    fn the_seeds_of_helper_input_hold() {
        each_seed("helper_input", super::helper_input);
    }

    #[test]
    fn the_seeds_of_addresses_hold() {
        each_seed("addresses", super::address);
    }

    #[test]
    fn the_seeds_of_texts_hold() {
        each_seed("escaping", super::shown_line);
    }
}
