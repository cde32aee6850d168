//! Bundles, packs and objects that no tool would write.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use gix::hash::Kind;
use parler_harness::Repository;

/// The kinds of a pack's entries.
pub(super) const COMMIT: u8 = 1;
pub(super) const TREE: u8 = 2;
pub(super) const BLOB: u8 = 3;
const OFS_DELTA: u8 = 6;
const REF_DELTA: u8 = 7;

/// A header of version 2.
pub(super) fn header(prerequisites: &[&str], refs: &[(&str, &str)]) -> Vec<u8> {
    let mut text = String::from("# v2 git bundle\n");
    for oid in prerequisites {
        text.push_str(&format!("-{oid} \n"));
    }
    for (name, oid) in refs {
        text.push_str(&format!("{oid} {name}\n"));
    }
    text.push('\n');
    text.into_bytes()
}

/// Writes any bytes as an object, whatever git thinks of them.
#[track_caller]
pub(super) fn object(repository: &Repository<'_>, kind: &str, content: &[u8]) -> String {
    let arguments = ["hash-object", "-t", kind, "-w", "--stdin", "--literally"];
    let written = repository.user().feed("git", arguments, content);
    written.success().word().to_owned()
}

/// One entry of a tree.
pub(super) fn tree_entry(mode: &str, name: &str, oid: &str) -> Vec<u8> {
    [format!("{mode} {name}\0").into_bytes(), raw(oid)].concat()
}

/// A commit on this tree.
pub(super) fn commit_text(tree: &str, parent: Option<&str>, message: &str) -> String {
    let parent = parent.map(|oid| format!("parent {oid}\n")).unwrap_or_default();
    let who = "Somebody <somebody@example.com> 1700000000 +0000";
    format!("tree {tree}\n{parent}author {who}\ncommitter {who}\n\n{message}\n")
}

#[track_caller]
pub(super) fn commit(repository: &Repository<'_>, tree: &str, parent: Option<&str>) -> String {
    object(repository, "commit", commit_text(tree, parent, "x").as_bytes())
}

/// A pack of exactly these objects, made by git.
#[track_caller]
pub(super) fn pack(repository: &Repository<'_>, oids: &[&str]) -> Vec<u8> {
    let packed = repository
        .user()
        .feed("git", "pack-objects --stdout -q", oids.join("\n").as_bytes());
    packed.success().out_bytes().to_vec()
}

/// The bytes that an id stands for.
pub(super) fn raw(oid: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&oid[at..at + 2], 16).unwrap();
    (0..oid.len()).step_by(2).map(digits).collect()
}

/// What a blob of this content is called.
pub(super) fn blob_id(content: &[u8]) -> Vec<u8> {
    let text = [format!("blob {}\0", content.len()).as_bytes(), content].concat();
    checksum(&text)
}

fn checksum(bytes: &[u8]) -> Vec<u8> {
    let mut hasher = gix::hash::hasher(Kind::Sha1);
    hasher.update(bytes);
    hasher.try_finalize().unwrap().as_slice().to_vec()
}

/// A pack written entry by entry.
pub(super) struct Pack {
    objects: u32,
    body: Vec<u8>,
    last: usize,
}

impl Pack {
    pub(super) fn new() -> Self {
        Self {
            objects: 0,
            body: Vec::new(),
            last: 0,
        }
    }

    /// An entry of this kind that says it inflates to so many bytes; `base` stands between that and the content.
    pub(super) fn entry(mut self, kind: u8, mut size: u64, base: &[u8], content: &[u8]) -> Self {
        self.last = self.body.len();
        self.objects += 1;
        let mut first = kind << 4 | (size & 15) as u8;
        size >>= 4;
        while size > 0 {
            self.body.push(first | 0x80);
            first = (size & 127) as u8;
            size >>= 7;
        }
        self.body.push(first);
        self.body.extend_from_slice(base);
        let mut deflate = ZlibEncoder::new(&mut self.body, Compression::new(4));
        deflate.write_all(content).unwrap();
        deflate.finish().unwrap();
        self
    }

    pub(super) fn object(self, kind: u8, content: &[u8]) -> Self {
        self.entry(kind, content.len() as u64, &[], content)
    }

    pub(super) fn blob(self, content: &[u8]) -> Self {
        self.object(BLOB, content)
    }

    /// A delta on the entry before.
    pub(super) fn delta(self, delta: &[u8]) -> Self {
        let back = (self.body.len() - self.last) as u64;
        self.delta_back(back, delta)
    }

    /// A delta on what begins so many bytes before.
    pub(super) fn delta_back(self, back: u64, delta: &[u8]) -> Self {
        self.entry(OFS_DELTA, delta.len() as u64, &distance(back), delta)
    }

    /// A delta on the first entry.
    pub(super) fn delta_to_first(self, delta: &[u8]) -> Self {
        let back = self.body.len() as u64;
        self.delta_back(back, delta)
    }

    /// A delta on an object by its name.
    pub(super) fn delta_on(self, base: &[u8], delta: &[u8]) -> Self {
        self.entry(REF_DELTA, delta.len() as u64, base, delta)
    }

    /// Bytes that are no entry, counted as one.
    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.objects += 1;
        self.body.extend_from_slice(bytes);
        self
    }

    /// The entries alone.
    pub(super) fn entries(self) -> Vec<u8> {
        self.body
    }

    /// The pack, with its right count and checksum.
    pub(super) fn end(self) -> Vec<u8> {
        let objects = self.objects;
        self.end_counting(objects)
    }

    /// The pack, with this count.
    pub(super) fn end_counting(self, objects: u32) -> Vec<u8> {
        let mut bytes = [&b"PACK\0\0\0\x02"[..], &objects.to_be_bytes(), &self.body].concat();
        let sum = checksum(&bytes);
        bytes.extend(sum);
        bytes
    }
}

/// As packs write the distance to a base.
fn distance(mut back: u64) -> Vec<u8> {
    let mut bytes = vec![(back & 127) as u8];
    back >>= 7;
    while back > 0 {
        back -= 1;
        bytes.push(0x80 | (back & 127) as u8);
        back >>= 7;
    }
    bytes.reverse();
    bytes
}

fn sized(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 127 {
        bytes.push((number & 127) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A delta that puts its base in a row so many times.
pub(super) fn repeat(base: u64, times: u64) -> Vec<u8> {
    repeat_and(base, times, b"")
}

/// A delta that puts a few bytes behind its base.
pub(super) fn append(base: u64, more: &[u8]) -> Vec<u8> {
    repeat_and(base, 1, more)
}

/// A delta that puts its base in a row so many times, and a few bytes behind that.
pub(super) fn repeat_and(base: u64, times: u64, more: &[u8]) -> Vec<u8> {
    let mut bytes = [sized(base), sized(base * times + more.len() as u64)].concat();
    for _ in 0..times {
        copy_all(base, &mut bytes);
    }
    if !more.is_empty() {
        bytes.push(u8::try_from(more.len()).unwrap());
        bytes.extend_from_slice(more);
    }
    bytes
}

fn copy_all(base: u64, bytes: &mut Vec<u8>) {
    const LARGEST: u64 = 0xff_ffff;
    let mut at = 0;
    while at < base {
        let piece = LARGEST.min(base - at);
        bytes.push(0xff);
        bytes.extend_from_slice(&(at as u32).to_le_bytes());
        bytes.extend_from_slice(&(piece as u32).to_le_bytes()[..3]);
        at += piece;
    }
}

/// A delta that makes this of a base of so many bytes, and says that it will be `made` bytes.
pub(super) fn insert(base: u64, made: u64, content: &[u8]) -> Vec<u8> {
    [
        &sized(base)[..],
        &sized(made),
        &[u8::try_from(content.len()).unwrap()],
        content,
    ]
    .concat()
}
