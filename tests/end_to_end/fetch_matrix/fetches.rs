//! Fetches and pulls that are compared, and what differs between the two sides and is meant to.

use super::row::{Row, row};

const COMMIT: &str = "commit -q --allow-empty -m mine";
const OTHER: &str = "remote add other SECOND";

/// What has no effect on a room, which says so.
const WHOLE: &[&str] = &["parler: a room sends whole histories: depth and filter have no effect"];

/// An object that does not exist.
const NOWHERE: &[(&str, &str)] = &[(
    "fatal: remote error: upload-pack: not our ref dddddddddddddddddddddddddddddddddddddddd",
    "fatal: no bundle of room 'first' holds object dddddddddddddddddddddddddddddddddddddddd",
)];

const FORMAT: (&str, &str) = (
    "fatal: mismatched algorithms: client sha1; server sha256",
    "fatal: room 'large' holds sha256 objects and this repository sha1 objects",
);

/// Git tries to set it for the list and for the objects, and warns each time.
const SERVICE: &[&str] = &["warning: setting remote service path not supported by protocol"];
const SERVICE_ONCE: &[(&str, &str)] = &[("warning: setting remote service path not supported by protocol", "")];

pub(super) const ROWS: &[Row] = &[
    row("fetch", "fetch there").again(),
    row("fetch from the branch's remote", "fetch"),
    row("fetch from an address", "fetch URL"),
    row("a branch of an address", "fetch URL main"),
    row("branches", "fetch there main topic").again(),
    row("a branch", "fetch there main").again(),
    row("HEAD", "fetch there HEAD"),
    row("HEAD of an address, called @", "fetch URL @"),
    row("HEAD as a branch", "fetch URL HEAD:refs/heads/theirs"),
    row("a branch as a branch", "fetch there main:mine").again(),
    row("a branch as a branch that moves on", "fetch there main:mine").before(&["branch mine main"]),
    row("a branch that moves back", "fetch there main:mine").before(&["branch mine", COMMIT, "branch -f mine"]),
    row("gone another way", "fetch there topic:refs/remotes/there/topic").again(),
    row(
        "gone another way, by plus",
        "fetch there +topic:refs/remotes/there/topic",
    ),
    row(
        "gone another way, forced",
        "fetch --force there topic:refs/remotes/there/topic",
    ),
    row(
        "one refused of several",
        "fetch there topic:refs/remotes/there/topic main:new fresh",
    )
    .again(),
    row(
        "one refused of several, atomic",
        "fetch --atomic there topic:refs/remotes/there/topic main:new fresh",
    ),
    row("atomic", "fetch --atomic there").again(),
    row("into the current branch", "fetch there main:main"),
    row(
        "into the current branch all the same",
        "fetch --update-head-ok there main:main",
    ),
    row(
        "onto a name that is a directory",
        "fetch there main:refs/remotes/there/deep",
    ),
    row("prune", "fetch --prune there").again(),
    row("prune, dry run", "fetch --prune --dry-run there"),
    row("prune tags", "fetch --prune --prune-tags there").again(),
    row("prune tags alone", "fetch --prune-tags there"),
    row("prune, of one branch", "fetch --prune there main"),
    row(
        "prune, of tags by a refspec",
        "fetch --prune there refs/tags/*:refs/tags/*",
    ),
    row(
        "prune, of an address",
        "fetch --prune URL refs/heads/*:refs/remotes/there/*",
    ),
    row("prune by configuration", "fetch there")
        .before(&["config fetch.prune true"])
        .again(),
    row("prune by the remote's configuration", "fetch there").before(&["config remote.there.prune true"]),
    row("prune by configuration, not now", "fetch --no-prune there").before(&["config fetch.prune true"]),
    row("prune tags by configuration", "fetch --prune there").before(&["config fetch.pruneTags true"]),
    row(
        "a file where a pruned directory was",
        "fetch --prune there +topic:refs/remotes/there/gone/now",
    ),
    row("tags", "fetch --tags there").again(),
    row("tags, forced", "fetch --tags --force there").again(),
    row("tags of an address", "fetch --tags URL"),
    row("tags of an address beside a branch", "fetch --tags URL main"),
    row("no tags", "fetch --no-tags there").again(),
    row("no tags, one asked for", "fetch --no-tags there tag v2"),
    row("a tag", "fetch there tag v2").along(&["middle"]),
    row("a tag of a tag", "fetch there tag nested"),
    row("a tag that moved", "fetch there tag v1").along(&["middle"]).again(),
    row("a tag that moved, forced", "fetch --force there tag v1").along(&["middle"]),
    row("a tag that moved, by plus", "fetch there +refs/tags/v1:refs/tags/v1").along(&["middle"]),
    row("a tag without a name for it", "fetch there v3"),
    row("a tag's commit as a branch", "fetch there v3:refs/heads/third"),
    row("a branch as a tag", "fetch there main:refs/tags/mine"),
    row("a tag on no branch", "fetch there tag aside"),
    row("tagOpt tags", "fetch there")
        .before(&["config remote.there.tagOpt --tags"])
        .again(),
    row("tagOpt no tags", "fetch there").before(&["config remote.there.tagOpt --no-tags"]),
    row("tagOpt no tags, and yet", "fetch --tags there").before(&["config remote.there.tagOpt --no-tags"]),
    row("dry run", "fetch --dry-run there").again(),
    row(
        "dry run of a refusal",
        "fetch --dry-run there topic:refs/remotes/there/topic",
    ),
    row("verbose", "fetch -v there").again(),
    row("very verbose", "fetch -v -v there main"),
    row("quiet", "fetch -q there"),
    row("quiet and refused", "fetch -q there topic:refs/remotes/there/topic"),
    row("porcelain", "fetch --porcelain there").since(2, 41).again(),
    row(
        "porcelain, dry run and prune",
        "fetch --porcelain --dry-run --prune there",
    )
    .since(2, 41),
    row(
        "porcelain, one refused",
        "fetch --porcelain there topic:refs/remotes/there/topic",
    )
    .since(2, 41),
    row("output compact", "fetch there").before(&["config fetch.output compact"]),
    row("all", "fetch --all").before(&[OTHER]).again(),
    row("all by configuration", "fetch")
        .before(&[OTHER, "config fetch.all true"])
        .since(2, 44),
    row("all but one", "fetch --all").before(&[OTHER, "config remote.other.skipFetchAll true"]),
    row("several remotes", "fetch --multiple there other").before(&[OTHER]),
    row("several remotes at once", "fetch -j2 --multiple there other")
        .before(&[OTHER])
        .in_any_order(),
    row("all at once, prune", "fetch -j4 --all --prune")
        .before(&[OTHER])
        .in_any_order(),
    row("several remotes, one unknown", "fetch --multiple there nowhere"),
    row("append", "fetch --append there main")
        .before(&["fetch -q there topic"])
        .again(),
    row("append, of another", "fetch --append other").before(&[OTHER, "fetch -q there topic"]),
    row("without FETCH_HEAD", "fetch --no-write-fetch-head there"),
    row("keep", "fetch --keep there"),
    row("refetch", "fetch --refetch there").since(2, 36),
    row("set upstream", "fetch --set-upstream there topic").again(),
    row("set upstream of several", "fetch --set-upstream there topic fresh"),
    row("no submodules", "fetch --recurse-submodules=no there"),
    row("submodules on demand", "fetch --recurse-submodules=on-demand there"),
    row("submodules", "fetch --recurse-submodules there"),
    row("refspecs from a file", "fetch --stdin there").input("main\n+topic:refs/remotes/there/topic\n"),
    row("no maintenance", "fetch --no-auto-maintenance there"),
    row("commit graph", "fetch --write-commit-graph there"),
    row("forced updates not shown", "fetch --no-show-forced-updates there"),
    row("fsck", "fetch there").before(&["config fetch.fsckObjects true"]),
    row("ipv4", "fetch -4 there"),
    row("a tip for negotiation", "fetch --negotiation-tip=main there")
        .says(&["warning: Ignoring --negotiation-tip because the protocol does not support it."]),
    row("another refmap", "fetch --refmap=refs/heads/*:refs/x/* there main"),
    row("no refmap", "fetch --refmap= there main"),
    row("an object that is a tip", "fetch there TIP"),
    row(
        "an object that is a tip, as a branch",
        "fetch URL TIP:refs/heads/theirs",
    ),
    row("an object that no ref names", "fetch there INNER").again(),
    row(
        "an object that no ref names, as a branch",
        "fetch there INNER:refs/heads/theirs",
    )
    .along(&["aside", "late", "light", "middle", "nested", "v2", "v3"]),
    row("a file's object", "fetch there BLOB"),
    row("a tree's object", "fetch there TREE"),
    row("an object that is nowhere", "fetch there UNKNOWN").except(NOWHERE),
    row("an object that is nowhere beside a branch", "fetch there main UNKNOWN").except(NOWHERE),
    row("a ref that is not there", "fetch there nowhere"),
    row(
        "a ref that is not there, beside one that is",
        "fetch there main nowhere",
    ),
    row(
        "a ref that is not there, by its full name",
        "fetch there refs/heads/nowhere:refs/heads/x",
    ),
    row("a tag that is not there", "fetch there tag nowhere"),
    row("no such name", "fetch there bad..name"),
    row("a pattern", "fetch there refs/heads/f*:refs/x/f*"),
    row("a pattern that is nowhere", "fetch there refs/nowhere/*:refs/x/*"),
    row(
        "a negative pattern",
        "fetch there refs/heads/*:refs/remotes/there/* ^refs/heads/topic",
    ),
    row("a negative pattern, configured", "fetch there").before(&["config --add remote.there.fetch ^refs/heads/t*"]),
    row("several refspecs, configured", "fetch there")
        .before(&["config --add remote.there.fetch +refs/notes/*:refs/notes/*"])
        .again(),
    row("a refspec without a name for it, configured", "fetch there")
        .before(&["config --replace-all remote.there.fetch main"]),
    row("two refspecs for one name", "fetch there main:refs/x/1 topic:refs/x/1"),
    row("everything", "fetch there +refs/*:refs/all/*")
        .apart_from(&["status"])
        .again(),
    row("notes", "fetch there refs/notes/*:refs/notes/*"),
    row("a hidden remote", "fetch nowhere"),
    row("from a commit at hand", "fetch there").before(&["checkout -q --detach", COMMIT]),
    row("with work under way", "fetch there").before(&["rm -q --cached README.md"]),
    row("in a linked work tree", "-C ../linked fetch there").before(&["worktree add -q ../linked"]),
    row(
        "in a linked work tree, into the other's branch",
        "-C ../linked fetch there main:main",
    )
    .before(&["worktree add -q ../linked"]),
    row("in a directory below", "-C src fetch there"),
    row("with a git directory alone", "--git-dir=.git fetch there"),
    row("depth", "fetch --depth=1 there")
        .says(WHOLE)
        .beside("fetch there")
        .again(),
    row("deepen", "fetch --deepen=1 there")
        .says(WHOLE)
        .beside("fetch there"),
    row("shallow since", "fetch --shallow-since=2001-01-01 there")
        .says(WHOLE)
        .beside("fetch there"),
    row("shallow exclude", "fetch --shallow-exclude=topic there")
        .says(WHOLE)
        .beside("fetch there"),
    row("unshallow", "fetch --unshallow there"),
    row("update shallow", "fetch --update-shallow there"),
    row("filter", "fetch --filter=blob:none there")
        .says(WHOLE)
        .except(&[("warning: filtering not recognized by server, ignoring", "")]),
    row("negotiate only", "fetch --negotiate-only --negotiation-tip=main there")
        .apart(255, "warning: --negotiate-only requires protocol v2"),
    row("server option", "fetch -o x there"),
    row("another program there", "fetch --upload-pack=x there")
        .says(SERVICE)
        .except(SERVICE_ONCE),
    // Pull.
    row("pull", "pull").again(),
    row("pull, up to date", "pull").before(&["pull -q"]),
    row("pull, ahead", "pull").before(&["pull -q", COMMIT]),
    row("pull, diverged and nothing said", "pull").before(&[COMMIT]).again(),
    row("pull, fast-forward alone, diverged", "pull --ff-only").before(&[COMMIT]),
    row("pull, fast-forward alone", "pull --ff-only"),
    row("pull, rebase", "pull --rebase").before(&[COMMIT]).again(),
    row("pull, rebase by configuration", "pull").before(&["config pull.rebase true", COMMIT]),
    row("pull, rebase, quiet", "pull --rebase --quiet").before(&[COMMIT]),
    row("pull, rebase over what was rewritten", "pull --rebase").before(&["switch -q topic", COMMIT]),
    row("pull, rebase with work under way", "pull --rebase").before(&["rm -q README.md"]),
    row("pull, rebase with work put aside", "pull --rebase --autostash")
        .before(&["rm -q README.md"])
        .apart_from(&["autostash"]),
    row("pull, merge", "pull --no-rebase --no-edit")
        .before(&[COMMIT])
        .merges()
        .again(),
    row("pull, merge without a commit", "pull --no-rebase --no-commit").before(&[COMMIT]),
    row("pull, squash", "pull --squash"),
    row("pull, a branch", "pull --no-rebase --no-edit there topic").merges(),
    row("pull, an address", "pull URL main"),
    row("pull, several", "pull --no-rebase --no-edit there fresh topic").merges(),
    row("pull, tags", "pull --tags"),
    row("pull, verbose", "pull -v"),
    row("pull, set upstream", "pull --set-upstream there main"),
    row("pull, nowhere", "pull there nowhere"),
    row("pull, from a commit at hand", "pull").before(&["checkout -q --detach"]),
    row("pull, a branch without upstream", "pull").before(&["switch -q -c lonely"]),
    row("pull, an upstream that is gone", "pull").before(&["switch -q gone"]),
    row("pull, prune", "pull --prune"),
    row("pull, dry run", "pull --dry-run"),
    row("pull, depth", "pull --depth=1").says(WHOLE).beside("pull"),
    row("pull, all", "pull --all").before(&[OTHER]),
    row("pull, two branches configured", "pull --no-rebase --no-edit")
        .before(&["config --add branch.main.merge refs/heads/topic"])
        .merges(),
    row("pull, in the way of a file", "pull").before(&["config advice.diverging false", "rm -q README.md"]),
    // Remotes.
    row("remote update", "remote update"),
    row("remote update, of two", "remote update").before(&[OTHER]).again(),
    row("remote update, of a group", "remote update both").before(&[
        OTHER,
        "config --add remotes.both there",
        "config --add remotes.both other",
    ]),
    row("remote update, prune", "remote update --prune").before(&[OTHER]),
    row("remote update, of one", "remote update there"),
    row("remote show", "remote show there"),
    row("remote show, after a fetch", "remote show there").before(&["fetch -q there"]),
    row("remote show, without asking", "remote show -n there"),
    row("remote prune", "remote prune there"),
    row("remote prune, dry run", "remote prune --dry-run there"),
    row("remote set-head, as there", "remote set-head there --auto").again(),
    row("remote set-head, from another", "remote set-head there --auto").before(&["remote set-head there topic"]),
    row("remote set-head, none", "remote set-head there --delete"),
    row("remote add and fetch", "remote add -f other SECOND"),
    row(
        "remote add and fetch, a mirror",
        "remote add --mirror=fetch -f other SECOND",
    ),
    row(
        "remote add and fetch, one branch",
        "remote add -t main -m main -f other SECOND",
    ),
    row("remote add and fetch, tags", "remote add --tags -f other SECOND"),
    row("remote add and fetch, no tags", "remote add --no-tags -f other SECOND"),
    row("remote rename", "remote rename there here"),
    row("remote remove", "remote remove there"),
    row("remote set-branches", "fetch there").before(&["remote set-branches there main"]),
    row("remote of something empty", "remote add -f none EMPTY"),
    row("fetch from something empty", "fetch EMPTY"),
    row("everything from something empty", "fetch EMPTY refs/heads/*:refs/x/*"),
    row("a branch of something empty", "fetch EMPTY main"),
    row("without a branch", "fetch TAGGED").again(),
    row("without a branch, all", "fetch TAGGED refs/*:refs/x/*").apart_from(&["status"]),
    row("objects of another format", "fetch LARGE").except(&[FORMAT]),
    row("objects of another format, a branch", "fetch LARGE main:refs/x/main").except(&[FORMAT]),
    // Other repositories.
    row("a mirror", "fetch").within("mirror"),
    row("a mirror, prune", "fetch --prune").within("mirror").again(),
    row("a mirror, remote update", "remote update --prune").within("mirror"),
    row("a mirror, shown", "remote show there").within("mirror"),
    row("a bare repository", "fetch").within("bare"),
    row(
        "a bare repository, all branches",
        "fetch there +refs/heads/*:refs/heads/*",
    )
    .within("bare")
    .again(),
    row("a bare repository, not forced", "fetch there refs/heads/*:refs/heads/*").within("bare"),
    row(
        "a bare repository, prune",
        "fetch --prune there +refs/heads/*:refs/heads/*",
    )
    .within("bare"),
    row("a single branch", "fetch")
        .within("single")
        .along(&["doomed"])
        .again(),
    row("a single branch, pull", "pull --rebase")
        .within("single")
        .along(&["doomed"]),
    row("a single branch, and another", "fetch there main")
        .within("single")
        .along(&["doomed"]),
    row("a single branch, tags", "fetch --tags")
        .within("single")
        .along(&["doomed"]),
];
