//! The pushes that are compared, and what differs between the two sides and is meant to.

/// One push.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// What happens before: `work` or `rival`, then what git is told there.
    pub(super) before: &'static [&'static str],
    /// `--porcelain `, unless people are to read it.
    pub(super) style: &'static str,
    /// The push, without `git push`.
    pub(super) push: &'static str,
    /// Words of the plain repository's answer, and those that stand for them in a room.
    pub(super) except: &'static [(&'static str, &'static str)],
}

const fn row(name: &'static str, before: &'static [&'static str], push: &'static str) -> Row {
    Row {
        name,
        before,
        style: "--porcelain ",
        push,
        except: &[],
    }
}

impl Row {
    const fn except(self, except: &'static [(&'static str, &'static str)]) -> Self {
        Self { except, ..self }
    }

    const fn for_people(self) -> Self {
        Self { style: "", ..self }
    }
}

const REWIND: &str = "work reset -q --hard HEAD~2";
const COMMIT: &str = "work commit -q --allow-empty -m more";
const RIVAL: &str = "rival push -q there main";
/// `work` sees what the rival pushed, and does not build on it.
const SEEN: &str = "work fetch -q there";

/// Over HTTP git says nothing of the others where one is to be fetched first, and stumbles over its own words.
const ATOMIC_FETCH_FIRST: &[(&str, &str)] = &[
    (
        "[rejected] (fetch first)\n",
        "[rejected] (fetch first)\n!\trefs/heads/new:refs/heads/new\t[remote rejected] (atomic push failed)\nDone\n",
    ),
    // With an empty line behind it before git 2.47.
    ("error: atomic push failed for ref refs/heads/main. status: 5\n\n", ""),
    ("error: atomic push failed for ref refs/heads/main. status: 5\n", ""),
    ("fatal: protocol error: bad line length character: erro\n", ""),
];

/// The other program that git asks over HTTP has a word of its own about this.
const HANGS_UP: (&str, &str) = ("fatal: the remote end hung up unexpectedly\n", "");

pub(super) const ROWS: &[Row] = &[
    row("fast-forward", &[], "there main"),
    row("quiet", &[], "--quiet there main"),
    row("verbose", &[], "--verbose there main"),
    row("nothing to do", &["work reset -q --hard there/main"], "there main"),
    row("new branch", &["work branch new"], "there new"),
    row("new branch by another name", &[], "there main:refs/heads/other"),
    row("short destination", &[], "there main:topic"),
    row("a destination that could be anything", &[], "there main^{commit}:new"),
    row("no such source", &[], "there nowhere"),
    row("set upstream", &["work branch new"], "--set-upstream there new"),
    row(
        "any revision",
        &[],
        "there HEAD~1:refs/heads/a main^{commit}:refs/heads/b @~2:refs/heads/c",
    ),
    row("an annotated tag's commit", &[], "there v2^{}:refs/heads/a"),
    row("an annotated tag", &[], "there v2"),
    row("an annotated tag as a branch", &[], "there v2:refs/heads/a").except(&[(
        "(failed to update ref)",
        "(a branch points at a commit, and this is a tag)",
    )]),
    row("tags", &["work tag light main~1"], "--tags there"),
    row("tags beside a branch", &["work tag light main~1"], "--tags there main"),
    row("follow tags", &["work tag light main~1"], "--follow-tags there main"),
    row("all", &["work branch new"], "--all there"),
    row("a tag that is there", &["work tag -f v1 main"], "there v1"),
    row(
        "a tag that is there, forced",
        &["work tag -f v1 main"],
        "--force there v1",
    ),
    row(
        "a tag that is there, among all",
        &["work tag -f v1 main"],
        "--tags there",
    ),
    row("push.default simple", &["work branch -q -u there/main"], ""),
    row(
        "push.default simple, another name",
        &["work branch -q -m mine", "work branch -q -u there/main"],
        "",
    ),
    row("push.default simple, no upstream", &["work switch -q -c new"], "there"),
    row(
        "push.default current",
        &["work config push.default current", "work switch -q -c new"],
        "there",
    ),
    row("push.default matching", &["work config push.default matching"], "there"),
    row(
        "push.default upstream",
        &[
            "work config push.default upstream",
            "work branch -q -m mine",
            "work branch -q -u there/main",
        ],
        "",
    ),
    row("push.default nothing", &["work config push.default nothing"], "there"),
    row(
        "a configured refspec",
        &["work config remote.there.push refs/heads/*:refs/heads/of-work/*"],
        "there",
    ),
    row(
        "a pattern",
        &["work branch a/1", "work branch a/2"],
        "there refs/heads/a/*:refs/heads/b/*",
    ),
    row(
        "a negative pattern",
        &["work branch a/1", "work branch a/2"],
        "there refs/heads/a/*:refs/heads/b/* ^refs/heads/a/1",
    ),
    row(
        "notes",
        &["work notes add -m well-done"],
        "there refs/notes/*:refs/notes/*",
    ),
    row("rewound", &[REWIND], "there main"),
    row("gone another way", &[REWIND, COMMIT], "there main"),
    row("gone another way, forced", &[REWIND, COMMIT], "--force there main"),
    row("gone another way, forced by plus", &[REWIND, COMMIT], "there +main"),
    row("fetch first", &[RIVAL], "there main"),
    row("fetch first, forced", &[RIVAL], "--force there main"),
    row("seen and not built on", &[RIVAL, SEEN], "there main"),
    row("forced where it is ahead", &[], "--force there main"),
    row(
        "one of several refused",
        &[RIVAL, SEEN, "work branch new"],
        "there main new topic:refs/heads/more",
    ),
    row(
        "one of several to be fetched first",
        &[RIVAL, "work branch new"],
        "there main new",
    ),
    row(
        "twice the same destination",
        &[],
        "there main:refs/heads/x topic:refs/heads/x",
    ),
    row("delete", &[], "there --delete topic"),
    row("delete by an empty source", &[], "there :topic"),
    row("delete a tag", &[], "there --delete v1"),
    row("delete several", &[], "there --delete topic v1"),
    row("delete what is not there", &[], "there --delete nowhere"),
    row(
        "delete what is not there, by its full name",
        &[],
        "there :refs/heads/nowhere",
    ),
    row("delete the current branch", &[], "there :main"),
    row("delete and make", &["work branch new"], "there new :topic"),
    row("a directory of a branch", &[], "there main:refs/heads/topic/x").except(&[(
        "(failed to update ref)",
        "('refs/heads/topic' exists; cannot create 'refs/heads/topic/x')",
    )]),
    row(
        "a directory of a branch that goes",
        &[],
        "there :topic main:refs/heads/topic/x",
    ),
    row(
        "a branch where a directory goes",
        &["work push -q there main:refs/heads/d/e"],
        "there :d/e main:refs/heads/d",
    ),
    row(
        "prune",
        &["work branch -q -D topic"],
        "--prune there refs/heads/*:refs/heads/*",
    ),
    row(
        "prune with a prefix",
        &["work push -q there main:refs/heads/p/1"],
        "--prune there refs/heads/none/*:refs/heads/p/*",
    ),
    row(
        "mirror",
        &[
            "work branch -q -D topic",
            "work update-ref -d refs/remotes/there/main",
            "work update-ref -d refs/remotes/there/topic",
        ],
        "--mirror there",
    ),
    row("dry run", &[], "--dry-run there main"),
    row(
        "dry run of several",
        &[RIVAL, SEEN, "work branch new"],
        "--dry-run there main new :topic",
    ),
    row("dry run to be fetched first", &[RIVAL], "--dry-run there main"),
    row("dry run, forced", &[REWIND, COMMIT], "--dry-run --force there main"),
    row(
        "dry run, atomic",
        &[RIVAL, "work branch new"],
        "--dry-run --atomic there main new",
    )
    .except(ATOMIC_FETCH_FIRST),
    row(
        "dry run of all and tags",
        &["work branch new"],
        "--dry-run --all --follow-tags there",
    ),
    row("lease", &[REWIND, COMMIT], "--force-with-lease there main"),
    row("lease, where it is ahead", &[], "--force-with-lease there main"),
    row(
        "lease, moved and not seen",
        &[REWIND, COMMIT, RIVAL],
        "--force-with-lease there main",
    ),
    row(
        "lease, moved and seen",
        &[REWIND, COMMIT, RIVAL, SEEN],
        "--force-with-lease there main",
    ),
    row(
        "lease of a ref",
        &[REWIND, COMMIT],
        "--force-with-lease=main there main",
    ),
    row(
        "lease of another ref",
        &[REWIND, COMMIT],
        "--force-with-lease=topic there main",
    ),
    row(
        "lease without a tracking ref",
        &[REWIND, COMMIT, "work update-ref -d refs/remotes/there/main"],
        "--force-with-lease there main",
    ),
    row(
        "lease of a value",
        &[REWIND, COMMIT],
        "--force-with-lease=main:there/main there main",
    ),
    row(
        "lease of another value",
        &[REWIND, COMMIT],
        "--force-with-lease=main:there/main~1 there main",
    ),
    row(
        "lease of another value, where it is ahead",
        &[],
        "--force-with-lease=main:there/main~1 there main",
    ),
    row(
        "lease of a value that is up to date",
        &[],
        "--force-with-lease=topic:main there topic",
    ),
    row(
        "lease of nothing, new",
        &["work branch new"],
        "--force-with-lease=new: there new",
    ),
    row(
        "lease of nothing, there",
        &[REWIND, COMMIT],
        "--force-with-lease=main: there main",
    ),
    row(
        "lease and delete",
        &[],
        "--force-with-lease=topic:there/topic there :topic",
    ),
    row(
        "stale lease and delete",
        &[],
        "--force-with-lease=topic:main there :topic",
    ),
    row(
        "stale lease and delete of nothing",
        &[],
        "--force-with-lease=nowhere:main there :refs/heads/nowhere",
    ),
    row(
        "stale lease and force",
        &[REWIND, COMMIT],
        "--force --force-with-lease=main:topic there main",
    ),
    row(
        "stale lease and plus",
        &[REWIND, COMMIT],
        "--force-with-lease=main:topic there +main",
    ),
    row(
        "several leases",
        &[REWIND, COMMIT, "work branch new"],
        "--force-with-lease=main:there/main --force-with-lease=new: there main new",
    ),
    row(
        "several leases, one stale",
        &[REWIND, COMMIT, "work branch new"],
        "--force-with-lease=main:there/main --force-with-lease=new:main there main new",
    ),
    row(
        "lease of a tag",
        &["work tag -f v1 main"],
        "--force-with-lease=refs/tags/v1:refs/tags/old there v1",
    ),
    row(
        "lease of a tag that moved",
        &["work tag -f v1 main"],
        "--force-with-lease=refs/tags/v1:main there v1",
    ),
    row(
        "lease of a name beyond ascii",
        &["work push -q there main:refs/heads/é", REWIND, COMMIT],
        "--force-with-lease=refs/heads/é:refs/remotes/there/é there main:refs/heads/é",
    ),
    row(
        "lease if included",
        &[REWIND, COMMIT, "work branch -q -u there/main"],
        "--force-with-lease --force-if-includes there main",
    ),
    row(
        "lease if included, and it is not",
        &[REWIND, COMMIT, RIVAL, SEEN],
        "--force-with-lease --force-if-includes there main",
    ),
    row(
        "lease if included, always",
        &["work config push.useForceIfIncludes true", REWIND, COMMIT, RIVAL, SEEN],
        "--force-with-lease there main",
    ),
    row(
        "stale lease, dry run",
        &[REWIND, COMMIT],
        "--dry-run --force-with-lease=main:topic there main",
    ),
    row("atomic", &["work branch new"], "--atomic there main new"),
    row(
        "atomic, one refused by git",
        &[RIVAL, SEEN, "work branch new"],
        "--atomic there main new",
    ),
    row(
        "atomic, one to be fetched first",
        &[RIVAL, "work branch new"],
        "--atomic there main new",
    )
    .except(ATOMIC_FETCH_FIRST),
    row(
        "atomic, one up to date",
        &[RIVAL, "work branch new"],
        "--atomic there main new topic",
    )
    .except(ATOMIC_FETCH_FIRST),
    row(
        "atomic, a stale lease",
        &["work branch new"],
        "--atomic --force-with-lease=main:topic there main new",
    ),
    row(
        "atomic, a branch that cannot go",
        &["work branch new"],
        "--atomic there :main new",
    )
    .except(&[("(atomic push failure)", "(atomic push failed)")]),
    row(
        "atomic, a tag that is there",
        &["work tag -f v1 main"],
        "--atomic there main v1",
    ),
    row(
        "atomic and force",
        &[RIVAL, "work branch new"],
        "--atomic --force there main new",
    ),
    row("atomic, deleting", &["work branch new"], "--atomic there :topic new"),
    row("signed if asked", &["work config push.gpgSign if-asked"], "there main"),
    row(
        "signed if asked, and nothing to do",
        &[],
        "--signed=if-asked there topic",
    ),
    row("signed if asked, quietly", &[], "--quiet --signed=if-asked there main"),
    row(
        "signed if asked, dry run",
        &[],
        "--signed=if-asked --dry-run there main",
    ),
    row("signed", &[], "--signed there main").except(&[HANGS_UP]),
    row(
        "signed, one of several refused",
        &[RIVAL, SEEN, "work branch new"],
        "--signed there main new",
    )
    .except(&[HANGS_UP]),
    row(
        "signed, by the configuration",
        &["work config push.gpgSign true"],
        "there main",
    )
    .except(&[HANGS_UP]),
    row("signed, dry run", &[], "--signed --dry-run there main"),
    row(
        "unsigned, whatever the configuration says",
        &["work config push.gpgSign true"],
        "--no-signed there main",
    ),
    row("for people: several", &["work branch new"], "there main new v2 :topic").for_people(),
    row("for people: forced", &[REWIND, COMMIT], "--force there main").for_people(),
    row(
        "for people: refused",
        &[RIVAL, SEEN, "work branch new"],
        "there main new",
    )
    .for_people(),
    row("for people: fetch first", &[RIVAL], "there main").for_people(),
    row("for people: upstream", &["work branch new"], "-u there new").for_people(),
    row("for people: quiet", &[], "-q there main").for_people(),
    row(
        "for people: quiet and refused",
        &[RIVAL, "work branch new"],
        "-q there main new",
    )
    .for_people(),
    row("for people: verbose", &["work branch new"], "-v there main new topic").for_people(),
    row(
        "for people: stale",
        &[REWIND, COMMIT],
        "--force-with-lease=main:topic there main",
    )
    .for_people(),
    row("for people: dry run", &["work branch new"], "-n there main new :topic").for_people(),
    row("for people: delete what is not there", &[], "there :refs/heads/nowhere").for_people(),
    row("for people: tags", &["work tag -f v1 main"], "--tags there").for_people(),
    row(
        "lease and the configured refspec",
        &[
            "work config remote.there.push refs/heads/main:refs/heads/topic",
            REWIND,
            COMMIT,
        ],
        "--force-with-lease there",
    ),
    row(
        "tags that are followed by the configuration",
        &["work config push.followTags true"],
        "there main",
    ),
    row("all, one refused", &[RIVAL, SEEN, "work branch new"], "--all there"),
    row("all and delete", &[], "--all --delete there"),
    row("mirror and refspecs", &[], "--mirror there main"),
    row("push.default simple, detached", &["work switch -q --detach"], "there"),
    row(
        "push.default current, detached",
        &["work config push.default current", "work switch -q --detach"],
        "there",
    ),
    row(
        "push.default upstream, none",
        &["work config push.default upstream", "work switch -q -c new"],
        "there",
    ),
    row(
        "push.default upstream, of another remote",
        &[
            "work config push.default upstream",
            "work config branch.main.remote nowhere",
        ],
        "there",
    ),
    row(
        "push.default simple, of another remote",
        &["work branch -q --unset-upstream"],
        "there",
    ),
    row(
        "push.autoSetupRemote",
        &["work config push.autoSetupRemote true", "work switch -q -c new"],
        "",
    ),
    row(
        "a branch's own remote",
        &[
            "work config branch.main.pushRemote there",
            "work config branch.main.remote nowhere",
        ],
        "",
    ),
    row("the remote by default", &["work config remote.pushDefault there"], ""),
    row(
        "detached, by name",
        &["work switch -q --detach"],
        "there HEAD:refs/heads/new",
    ),
    row("detached, without a name", &["work switch -q --detach"], "there HEAD"),
    row("the current branch", &[], "there HEAD"),
    row("the other name of the current branch", &[], "there @"),
    row("a colon", &[], "there :"),
    row("a colon, forced", &[REWIND, COMMIT], "there +:"),
    row(
        "another namespace",
        &[],
        "there HEAD:refs/changes/7/1 HEAD:refs/pull/1/head",
    ),
    row(
        "moved in another namespace, backwards",
        &["work push -q there HEAD:refs/changes/1"],
        "there HEAD~1:refs/changes/1",
    ),
    row("a tag in another namespace", &[], "there v2:refs/changes/v2"),
    row(
        "names that differ in case",
        &[],
        "there main:refs/heads/Case main:refs/heads/case main~1:refs/heads/CASE",
    ),
    row("a name that git does not take", &[], "there main:refs/heads/a..b"),
    row("a destination that is no ref", &[], "there main:new/"),
    row(
        "a tag of a commit that is there",
        &["work tag -a -m known known there/main"],
        "there known",
    ),
    row("a tag of a tag", &["work tag -a -m nested nested v1"], "there nested"),
    row(
        "a tag moved to an annotated one",
        &["work tag -f -a -m again v1 main"],
        "--force there v1",
    ),
    row("an address and no remote's name", &[], "--repo=there main"),
    row(
        "prune and nothing to prune",
        &[],
        "--prune there refs/heads/*:refs/heads/*",
    ),
    row(
        "prune, dry run",
        &["work branch -q -D topic"],
        "--prune --dry-run there refs/heads/*:refs/heads/*",
    ),
    row("thin or not", &[], "--no-thin there main"),
    row("without the hook", &[], "--no-verify there main"),
    row("IPv4", &[], "-4 there main"),
    row("an option that git does not know", &[], "--nonsense there main"),
    row("progress", &[], "--no-progress there main"),
    row("a remote that is not there", &[], "nowhere main"),
];
