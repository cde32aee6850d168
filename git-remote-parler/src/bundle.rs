//! The header of a git bundle file: what it holds and what it expects the receiver to have. Parsed strictly and within
//! limits, because it comes from outside; the pack that follows is git's business, see [`crate::import`].

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use parler_protocol::limits::{MAX_BUNDLE_HEADER_BYTES, MAX_PREREQUISITES, MAX_REF_NAME_BYTES, MAX_REF_UPDATES};
use parler_protocol::{BundleRefName, ObjectFormat, Oid, RefName};

use crate::git::one_line;

const MAGIC_V2: &str = "# v2 git bundle";
const MAGIC_V3: &str = "# v3 git bundle";

/// What stands before the pack of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleHeader {
    /// The hash that names the objects.
    pub object_format: ObjectFormat,
    /// Commits that the receiver must have, in the order of the file.
    pub prerequisites: Vec<Oid>,
    /// What the bundle brings, at least one, in the order of the file.
    pub refs: Vec<HeaderRef>,
}

/// A ref that a bundle brings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeaderRef {
    /// What it is called.
    pub name: HeaderRefName,
    /// What it names.
    pub oid: Oid,
}

/// A ref name as bundles of any maker hold them: whatever git accepts, `HEAD` and names that a room would refuse
/// included. It says what to call a tip, never which ref to write.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeaderRefName(String);

impl HeaderRefName {
    /// The name as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without `refs/`: what a pin of this ref ends with.
    pub fn without_refs(&self) -> &str {
        self.0.strip_prefix("refs/").unwrap_or(&self.0)
    }
}

impl fmt::Display for HeaderRefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&RefName> for HeaderRefName {
    fn from(name: &RefName) -> Self {
        Self(name.as_str().to_owned())
    }
}

impl From<&BundleRefName> for HeaderRefName {
    fn from(name: &BundleRefName) -> Self {
        Self(name.to_string())
    }
}

impl FromStr for HeaderRefName {
    type Err = BundleError;

    fn from_str(text: &str) -> Result<Self, BundleError> {
        if text.len() <= MAX_REF_NAME_BYTES && gix::validate::reference::name(text.into()).is_ok() {
            Ok(Self(text.to_owned()))
        } else {
            Err(BundleError::RefName {
                name: one_line(text.as_bytes()),
            })
        }
    }
}

impl BundleHeader {
    /// The header as it stands in a file, the empty line included: version 2 for SHA-1, else version 3.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = match self.object_format {
            ObjectFormat::Sha1 => format!("{MAGIC_V2}\n"),
            format => format!("{MAGIC_V3}\n@object-format={format}\n"),
        };
        for oid in &self.prerequisites {
            // The blank belongs to the format; the comment behind it may be empty.
            text.push_str(&format!("-{oid} \n"));
        }
        for tip in &self.refs {
            text.push_str(&format!("{} {}\n", tip.oid, tip.name));
        }
        text.push('\n');
        text.into_bytes()
    }

    /// Parses a whole header, the empty line included.
    pub fn parse(bytes: &[u8]) -> Result<Self, BundleError> {
        let Some(body) = bytes
            .strip_suffix(b"\n\n")
            .filter(|_| bytes.len() <= MAX_BUNDLE_HEADER_BYTES)
        else {
            return Err(BundleError::NotABundle);
        };
        let mut lines = body.split(|byte| *byte == b'\n');
        let version = match lines.next() {
            Some(line) if line == MAGIC_V2.as_bytes() => 2,
            Some(line) if line == MAGIC_V3.as_bytes() => 3,
            _ => return Err(BundleError::NotABundle),
        };
        let mut header = Self {
            object_format: ObjectFormat::Sha1,
            prerequisites: Vec::new(),
            refs: Vec::new(),
        };
        let mut section = Section::Capabilities;
        for line in lines {
            if line.contains(&0) {
                return Err(BundleError::line(line));
            }
            let of = Section::of(line);
            // Within the capabilities, a second object format is as misplaced as one after the refs.
            if of < section || (of == Section::Capabilities && version < 3) {
                return Err(BundleError::line(line));
            }
            section = of;
            match section {
                Section::Capabilities => {
                    header.object_format = parse_capability(line)?;
                    section = Section::Prerequisites;
                }
                Section::Prerequisites => header.prerequisites.push(header.parse_prerequisite(line)?),
                Section::Refs => header.refs.push(header.parse_ref(line)?),
            }
        }
        header.check()?;
        Ok(header)
    }

    fn parse_prerequisite(&self, line: &[u8]) -> Result<Oid, BundleError> {
        if self.prerequisites.len() == MAX_PREREQUISITES {
            return Err(BundleError::TooMany {
                what: "prerequisites",
                most: MAX_PREREQUISITES,
            });
        }
        let digits = 2 * self.object_format.raw_len();
        let (oid, comment) = line[1..]
            .split_at_checked(digits)
            .ok_or_else(|| BundleError::line(line))?;
        // The comment is the sender's text, of any encoding; nobody needs it.
        if !matches!(comment.first(), None | Some(b' ')) {
            return Err(BundleError::line(line));
        }
        self.parse_oid(oid, line)
    }

    fn parse_ref(&self, line: &[u8]) -> Result<HeaderRef, BundleError> {
        if self.refs.len() == MAX_REF_UPDATES {
            return Err(BundleError::TooMany {
                what: "refs",
                most: MAX_REF_UPDATES,
            });
        }
        let digits = 2 * self.object_format.raw_len();
        let (oid, name) = line.split_at_checked(digits).ok_or_else(|| BundleError::line(line))?;
        let oid = self.parse_oid(oid, line)?;
        let name = name.strip_prefix(b" ").ok_or_else(|| BundleError::line(line))?;
        let name = str::from_utf8(name).map_err(|_| BundleError::RefName { name: one_line(name) })?;
        Ok(HeaderRef {
            name: name.parse()?,
            oid,
        })
    }

    fn parse_oid(&self, digits: &[u8], line: &[u8]) -> Result<Oid, BundleError> {
        let oid = str::from_utf8(digits).ok().and_then(|text| text.parse::<Oid>().ok());
        oid.filter(|oid| !oid.is_null()).ok_or_else(|| BundleError::line(line))
    }

    /// What no single line tells: something is brought, nothing twice, and the names can stand beside each other.
    fn check(&self) -> Result<(), BundleError> {
        if self.refs.is_empty() {
            return Err(BundleError::NoRefs);
        }
        let mut seen = HashSet::new();
        if let Some(oid) = self.prerequisites.iter().find(|oid| !seen.insert(**oid)) {
            return Err(BundleError::Twice { what: oid.to_string() });
        }
        // Compared as pins are named, so that `HEAD` and `refs/HEAD` are one.
        let mut names = HashSet::new();
        if let Some(tip) = self.refs.iter().find(|tip| !names.insert(tip.name.without_refs())) {
            return Err(BundleError::Twice {
                what: one_line(tip.name.as_str().as_bytes()),
            });
        }
        let is_inside_another = |tip: &&HeaderRef| {
            let name = tip.name.without_refs();
            name.match_indices('/').any(|(slash, _)| names.contains(&name[..slash]))
        };
        match self.refs.iter().find(is_inside_another) {
            Some(tip) => Err(BundleError::RefName {
                name: one_line(tip.name.as_str().as_bytes()),
            }),
            None => Ok(()),
        }
    }
}

/// The parts of a header, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    Capabilities,
    Prerequisites,
    Refs,
}

impl Section {
    fn of(line: &[u8]) -> Self {
        match line.first() {
            Some(b'@') => Self::Capabilities,
            Some(b'-') => Self::Prerequisites,
            _ => Self::Refs,
        }
    }
}

fn parse_capability(line: &[u8]) -> Result<ObjectFormat, BundleError> {
    let text = str::from_utf8(line).map_err(|_| BundleError::line(line))?;
    let format = text
        .strip_prefix("@object-format=")
        .and_then(|format| format.parse().ok());
    // `@filter` too: a bundle without some of its objects would make the receiver fetch them from who knows where.
    format.ok_or_else(|| BundleError::Capability { line: one_line(line) })
}

/// Where the header ends, looked for while a bundle comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderEnd {
    /// The header is this long, the empty line included.
    At(usize),
    /// Not seen yet, and more bytes may bring it.
    NotYet,
}

/// Looks for the end of the header in the first bytes of a file. What cannot be a bundle is refused as soon as it shows.
///
/// `searched` bytes were looked at before without finding it.
pub fn find_header_end(bytes: &[u8], searched: usize) -> Result<HeaderEnd, BundleError> {
    let is_start_of = |magic: &str| {
        let magic = [magic.as_bytes(), b"\n"].concat();
        let common = magic.len().min(bytes.len());
        magic[..common] == bytes[..common]
    };
    if !is_start_of(MAGIC_V2) && !is_start_of(MAGIC_V3) {
        return Err(BundleError::NotABundle);
    }
    let from = searched.saturating_sub(1);
    let end = bytes[from.min(bytes.len())..]
        .windows(2)
        .position(|pair| pair == b"\n\n")
        .map(|at| from + at + 2);
    match end {
        Some(end) if end <= MAX_BUNDLE_HEADER_BYTES => Ok(HeaderEnd::At(end)),
        None if bytes.len() < MAX_BUNDLE_HEADER_BYTES => Ok(HeaderEnd::NotYet),
        _ => Err(BundleError::HeaderTooLong),
    }
}

/// Why bytes are not a bundle that we take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// It does not begin as bundles of version 2 or 3 do, or ends within the header.
    #[error("not a git bundle")]
    NotABundle,
    /// The header passes the cap.
    #[error("the bundle's header is longer than {MAX_BUNDLE_HEADER_BYTES} bytes")]
    HeaderTooLong,
    /// A line that does not belong where it stands.
    #[error("the bundle's header has the line {line:?}")]
    Line {
        /// The line, escaped and cut.
        line: String,
    },
    /// A capability that we do not take, `@filter` among them.
    #[error("the bundle asks for {line:?}, which is not supported")]
    Capability {
        /// The line, escaped and cut.
        line: String,
    },
    /// A ref name that git does not accept, or that cannot stand beside the others.
    #[error("the bundle holds a ref called {name:?}")]
    RefName {
        /// The name, escaped and cut.
        name: String,
    },
    /// A ref or prerequisite is listed twice.
    #[error("the bundle lists {what} twice")]
    Twice {
        /// Which, escaped and cut.
        what: String,
    },
    /// Too many of something.
    #[error("the bundle has more than {most} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The cap.
        most: usize,
    },
    /// It brings nothing.
    #[error("the bundle holds no ref")]
    NoRefs,
}

impl BundleError {
    fn line(line: &[u8]) -> Self {
        Self::Line {
            line: one_line(&line[..line.len().min(120)]),
        }
    }
}

#[cfg(test)]
mod tests;
