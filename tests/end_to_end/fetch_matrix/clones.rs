//! Clones that are compared, and what differs between the two sides and is meant to.

use super::row::{Row, clone};

/// What has no effect on a room, which says so.
const WHOLE: &[&str] = &["parler: a room sends whole histories: depth and filter have no effect"];

/// Git tries to set it for the list and for the objects, and warns each time.
const SERVICE: &[&str] = &["warning: setting remote service path not supported by protocol"];
const SERVICE_ONCE: &[(&str, &str)] = &[("warning: setting remote service path not supported by protocol", "")];

pub(super) const ROWS: &[Row] = &[
    clone("clone", "clone URL copy"),
    clone("clone without a name", "clone URL").made("first"),
    clone("quiet", "clone -q URL copy"),
    clone("verbose", "clone -v URL copy"),
    clone("mirror", "clone --mirror URL copy"),
    clone("mirror without a name", "clone --mirror URL").made("first.git"),
    clone("bare", "clone --bare URL copy"),
    clone("single branch", "clone --single-branch URL copy"),
    clone("single branch of a name", "clone --single-branch -b topic URL copy"),
    clone("single branch, bare", "clone --single-branch --bare URL copy"),
    clone("single branch without tags", "clone --single-branch --no-tags URL copy"),
    clone("a branch", "clone -b topic URL copy"),
    clone("a branch below another name", "clone -b deep/er URL copy"),
    clone("a tag", "clone -b v2 URL copy"),
    clone("a light tag", "clone -b light URL copy"),
    clone("a single tag", "clone --single-branch -b nested URL copy"),
    clone("a branch that is not there", "clone -b nowhere URL copy"),
    clone("no tags", "clone --no-tags URL copy"),
    clone("no checkout", "clone --no-checkout URL copy"),
    clone("another name for the remote", "clone -o up URL copy"),
    clone(
        "another name for the remote, long",
        "clone --origin up -b topic URL copy",
    ),
    clone("of something empty", "clone EMPTY copy"),
    clone("of something empty, bare", "clone --bare EMPTY copy"),
    clone("of something empty, mirror", "clone --mirror EMPTY copy"),
    clone("of something empty, a branch", "clone -b main EMPTY copy"),
    clone("without a branch", "clone TAGGED copy"),
    clone("without a branch, a tag", "clone -b v1 TAGGED copy"),
    clone("without a branch, bare", "clone --bare TAGGED copy"),
    clone("objects of another format", "clone LARGE copy"),
    clone("depth", "clone --depth=1 URL copy")
        .says(WHOLE)
        .beside("clone --single-branch URL copy"),
    clone("depth of all branches", "clone --depth=1 --no-single-branch URL copy")
        .says(WHOLE)
        .beside("clone URL copy"),
    clone("shallow since", "clone --shallow-since=2001-01-01 URL copy")
        .says(WHOLE)
        .beside("clone --single-branch URL copy"),
    clone("shallow exclude", "clone --shallow-exclude=topic URL copy")
        .says(WHOLE)
        .beside("clone --single-branch URL copy"),
    clone("filter", "clone --filter=blob:none URL copy")
        .says(WHOLE)
        .except(&[("warning: filtering not recognized by server, ignoring", "")]),
    clone("reject shallow", "clone --reject-shallow URL copy"),
    clone("separate git directory", "clone --separate-git-dir=elsewhere URL copy"),
    clone("reference", "clone --reference ../plain/work URL copy"),
    clone(
        "reference, dissociated",
        "clone --reference ../plain/work --dissociate URL copy",
    ),
    clone("reference if able", "clone --reference-if-able ../nowhere URL copy"),
    clone("submodules, none there", "clone --recurse-submodules URL copy"),
    clone("sparse", "clone --sparse URL copy"),
    clone("reftable", "clone --ref-format=reftable URL copy").since(2, 45),
    clone(
        "configuration",
        "clone -c fetch.prune=true -c core.logAllRefUpdates=false URL copy",
    ),
    clone(
        "a refspec by configuration",
        "clone -c remote.origin.fetch=+refs/notes/*:refs/notes/* URL copy",
    ),
    clone("in parallel", "clone -j4 URL copy"),
    clone("shared has no effect", "clone --shared URL copy"),
    clone("not local", "clone --no-local URL copy"),
    clone("no template", "clone --template= URL copy"),
    clone("another program there", "clone --upload-pack=x URL copy")
        .says(SERVICE)
        .except(SERVICE_ONCE),
    clone("server option", "clone --server-option=x URL copy"),
    clone("ipv4", "clone -4 URL copy"),
    clone(
        "default remote's name by configuration",
        "-c clone.defaultRemoteName=up clone URL copy",
    ),
    clone("into a directory that is not empty", "clone URL ."),
];
