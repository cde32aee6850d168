//! One command that is compared.

/// Where a command is given.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// In an empty directory.
    Empty,
    /// In a copy of this repository, which saw the remote before its refs moved: `work`, `mirror`, `bare`, `single`.
    In(&'static str),
}

/// A command, and what is meant to differ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) place: Place,
    /// What git is told before, at the same place.
    pub(super) before: &'static [&'static str],
    /// What git is told beside it on the side of the plain repository, where that is something else.
    pub(super) beside: Option<&'static str>,
    /// What git is told. Words in capitals stand for addresses and objects, see [`super::stage`].
    pub(super) command: &'static str,
    pub(super) input: &'static str,
    /// The repository to look at afterwards, from the place of the command.
    pub(super) made: &'static str,
    /// The first git that knows it.
    pub(super) since: (u32, u32),
    /// Words of the plain repository's answer, and those that stand for them with a room.
    pub(super) except: &'static [(&'static str, &'static str)],
    /// Where a room ends in another way: its code, and words that say why.
    pub(super) apart: Option<(i32, &'static str)>,
    /// What is left in another way, and is not compared.
    pub(super) apart_from: &'static [&'static str],
    /// What a room says besides.
    pub(super) says: &'static [&'static str],
    /// Tags that come along: a bundle comes whole, and git follows tags at whatever is here.
    pub(super) along: &'static [&'static str],
    /// Whether a commit is made that names the address: its tree and parents are compared.
    pub(super) merges: bool,
    /// Whether the command is given twice.
    pub(super) again: bool,
    /// Whether lines may come in any order.
    pub(super) in_any_order: bool,
}

const PLAIN: Row = Row {
    name: "",
    place: Place::Empty,
    before: &[],
    command: "",
    beside: None,
    along: &[],
    merges: false,
    again: false,
    input: "",
    made: ".",
    since: (0, 0),
    except: &[],
    apart: None,
    apart_from: &[],
    says: &[],
    in_any_order: false,
};

/// A command given in a clone.
pub(super) const fn row(name: &'static str, command: &'static str) -> Row {
    Row {
        name,
        command,
        place: Place::In("work"),
        ..PLAIN
    }
}

/// A clone, which makes `copy`.
pub(super) const fn clone(name: &'static str, command: &'static str) -> Row {
    Row {
        name,
        command,
        made: "copy",
        ..PLAIN
    }
}

impl Row {
    /// Whether the work tree may be another one afterwards.
    pub(super) fn touches_files(&self) -> bool {
        self.command.contains("pull") || self.command.contains("clone")
    }

    pub(super) const fn before(self, before: &'static [&'static str]) -> Self {
        Self { before, ..self }
    }

    pub(super) const fn within(self, template: &'static str) -> Self {
        Self {
            place: Place::In(template),
            ..self
        }
    }

    pub(super) const fn made(self, made: &'static str) -> Self {
        Self { made, ..self }
    }

    pub(super) const fn beside(self, beside: &'static str) -> Self {
        Self {
            beside: Some(beside),
            ..self
        }
    }

    pub(super) const fn along(self, along: &'static [&'static str]) -> Self {
        Self { along, ..self }
    }

    pub(super) const fn again(self) -> Self {
        Self { again: true, ..self }
    }

    pub(super) const fn merges(self) -> Self {
        Self { merges: true, ..self }
    }

    pub(super) const fn input(self, input: &'static str) -> Self {
        Self { input, ..self }
    }

    pub(super) const fn since(self, major: u32, minor: u32) -> Self {
        Self {
            since: (major, minor),
            ..self
        }
    }

    pub(super) const fn except(self, except: &'static [(&'static str, &'static str)]) -> Self {
        Self { except, ..self }
    }

    pub(super) const fn apart(self, code: i32, says: &'static str) -> Self {
        Self {
            apart: Some((code, says)),
            ..self
        }
    }

    pub(super) const fn apart_from(self, apart_from: &'static [&'static str]) -> Self {
        Self { apart_from, ..self }
    }

    pub(super) const fn says(self, says: &'static [&'static str]) -> Self {
        Self { says, ..self }
    }

    pub(super) const fn in_any_order(self) -> Self {
        Self {
            in_any_order: true,
            ..self
        }
    }
}
