//! Group I but for packs: headers, names, tips and what they reach, objects that are dangerous.

use parler_harness::Snapshot;

use super::forge::{commit, header, object, pack, tree_entry};
use super::stage::Stage;
use crate::world;

#[test]
fn i01_files_that_are_no_bundles() {
    let world = world();
    let stage = Stage::new(&world);
    let good = String::from_utf8_lossy(&stage.good()).into_owned();
    let cases: [(&str, Vec<u8>); 9] = [
        ("nothing", Vec::new()),
        ("one byte", b"#".to_vec()),
        (
            "a header alone",
            header(&[&stage.base], &[("refs/heads/x", &stage.tip)]),
        ),
        ("the first line alone", b"# v2 git bundle\n".to_vec()),
        ("a web page", b"<!DOCTYPE html>\n<title>Sign in</title>\n\n".to_vec()),
        ("version 1", good.replacen("# v2", "# v1", 1).into_bytes()),
        ("version 4", good.replacen("# v2", "# v4", 1).into_bytes()),
        (
            "lines of another system",
            good.replacen("bundle\n", "bundle\r\n", 1).into_bytes(),
        ),
        ("a mark of byte order", format!("\u{feff}{good}").into_bytes()),
    ];
    for (what, bytes) in cases {
        stage.refuses(&bytes, 7, "bundle", what);
    }
}

#[test]
fn i02_names_that_git_refuses_and_those_that_it_takes() {
    let world = world();
    let stage = Stage::new(&world);
    let pack = stage.good_pack();
    let with = |names: &[&str]| {
        let refs: Vec<_> = names.iter().map(|name| (*name, stage.tip.as_str())).collect();
        [header(&[&stage.base], &refs), pack.clone()].concat()
    };
    for name in [
        "refs/heads/../../../evil",
        "refs/heads/\u{1b}]0;owned\u{7}",
        "--upload-pack=touch",
        "-x",
        "x",
        "refs/heads/a.lock",
        "refs/heads/a.lock/b",
        "refs/heads/.x",
        "refs/heads/x.",
        "refs/heads/a b",
        "refs/heads/a\u{7f}",
        "refs/heads/a~1",
        "refs/heads/a\\b",
        "refs/heads/@{u}",
        "refs/heads//x",
        "refs/heads/",
        "/refs/heads/x",
    ] {
        stage.refuses(&with(&["refs/heads/good", name]), 7, "ref called", name);
    }
    let before = format!("# v2 git bundle\n-{} \n{} refs/heads/", stage.base, stage.tip);
    let unreadable = [before.as_bytes(), b"\xff\xfe\n\n", &pack].concat();
    stage.refuses(&unreadable, 7, "ref called", "bytes that are no text");

    // What git takes is taken, below our own names: two spellings of one letter, two cases, devices of other systems.
    stage.takes(&with(&["refs/heads/\u{e9}", "refs/heads/e\u{301}"]), "two spellings");
    let twins = stage.takes(&with(&["refs/heads/Main", "refs/heads/main"]), "two cases");
    twins.warns("heads/Main and ").warns("heads/main differ in case alone");
    stage.takes(
        &with(&["refs/heads/CON", "refs/heads/aux.txt", "refs/heads/-x"]),
        "devices",
    );
    stage.takes(&with(&["refs/heads/refs/heads/x"]), "a name in a name");
}

#[test]
fn i03_i16_refs_of_every_namespace_stay_below_ours() {
    let world = world();
    let stage = Stage::new(&world);
    let before = stage.receiver.refs();
    let replaced = format!("refs/replace/{}", stage.base);
    let names = [
        "HEAD",
        &replaced,
        "refs/notes/commits",
        "refs/stash",
        "refs/remotes/origin/main",
        "refs/parler/x",
        "refs/tags/v1",
        "refs/tags/evil",
        "refs/bisect/bad",
        "refs/heads/main",
    ];
    let refs: Vec<_> = names.iter().map(|name| (*name, stage.tip.as_str())).collect();
    stage.takes(
        &[header(&[&stage.base], &refs), stage.good_pack()].concat(),
        "many namespaces",
    );
    let mut after = stage.receiver.refs();
    after.retain(|name, _| !name.starts_with("refs/parler/"));
    assert_eq!(after, before);
    assert_eq!(stage.receiver.ask("replace --list"), "");
    assert_eq!(stage.receiver.ask("stash list"), "");
    assert_eq!(stage.receiver.ask("notes list"), "");
    assert_eq!(stage.receiver.ask("tag --list"), "v1");
}

#[test]
fn i04_too_many_names_and_names_that_cannot_stand_together() {
    let world = world();
    let stage = Stage::new(&world);
    let pack = stage.good_pack();
    let with = |refs: &[(&str, &str)]| [header(&[&stage.base], refs), pack.clone()].concat();
    let tip = stage.tip.as_str();
    stage.refuses(
        &with(&[("refs/heads/x", tip), ("refs/heads/x", tip)]),
        7,
        "twice",
        "doubled",
    );
    stage.refuses(&with(&[("HEAD", tip), ("refs/HEAD", tip)]), 7, "twice", "one pin");
    for two in [["refs/heads/x", "refs/heads/x/y"], ["refs/heads/x/y", "refs/heads/x"]] {
        stage.refuses(
            &with(&[(two[0], tip), (two[1], tip)]),
            7,
            "ref called",
            "a directory of another",
        );
    }
    for count in [10_001, 100_000] {
        let names: Vec<String> = (0..count).map(|number| format!("refs/heads/{number}")).collect();
        let refs: Vec<_> = names.iter().map(|name| (name.as_str(), tip)).collect();
        let words = if count > 50_000 {
            "longer than"
        } else {
            "more than 10000 refs"
        };
        stage.refuses_cheaply(&with(&refs), words, "a flood of refs");
    }
    let oids: Vec<String> = (1..=10_001).map(|number| format!("{number:040x}")).collect();
    let oids: Vec<_> = oids.iter().map(String::as_str).collect();
    let many = [header(&oids, &[("refs/heads/x", tip)]), pack.clone()].concat();
    stage.refuses_cheaply(&many, "more than 10000 prerequisites", "a flood of prerequisites");
    let endless = [b"# v2 git bundle\n".to_vec(), vec![b'-'; 64 << 20]].concat();
    stage.refuses_cheaply(&endless, "longer than", "a header without an end");
}

#[test]
fn i05_capabilities_that_nobody_takes() {
    let world = world();
    let stage = Stage::new(&world);
    let pack = stage.good_pack();
    let with = |capability: &str, oid: &str| {
        let head = format!(
            "# v3 git bundle\n{capability}\n-{} \n{oid} refs/heads/x\n\n",
            stage.base
        );
        [head.into_bytes(), pack.clone()].concat()
    };
    for capability in [
        "@filter=blob:none",
        "@filter=tree:0",
        "@from-the-future",
        "@object-format=md5",
        "@object-format=sha1\n@filter=blob:none",
    ] {
        stage.refuses(&with(capability, &stage.tip), 7, "bundle", capability);
    }
    let other = format!(
        "# v3 git bundle\n@object-format=sha256\n{} refs/heads/x\n\n",
        "3".repeat(64)
    );
    stage.refuses(
        &[other.into_bytes(), pack.clone()].concat(),
        6,
        "sha256",
        "another hash",
    );
    stage.takes(&with("@object-format=sha1", &stage.tip), "the same hash");
    let promises = Snapshot::of(&stage.receiver);
    assert!(promises.names().all(|name| !name.ends_with(".promisor")));
}

#[test]
fn i07_tips_that_are_no_commits() {
    let world = world();
    let stage = Stage::new(&world);
    let sender = &stage.sender;
    let (tree, blob) = (sender.rev("HEAD^{tree}"), sender.rev("HEAD:src/lib.rs"));
    let tag = |of: &str, kind: &str| {
        let text = format!("object {of}\ntype {kind}\ntag t\ntagger A <a@example.com> 1700000000 +0000\n\nt\n");
        object(sender, "tag", text.as_bytes())
    };
    let (of_blob, of_tree, of_nothing) = (tag(&blob, "blob"), tag(&tree, "tree"), tag(&"1".repeat(40), "commit"));
    let (of_tag, lying) = (tag(&of_blob, "tag"), tag(&blob, "commit"));
    let all = sender.ask(["rev-list", "--objects", "--no-object-names", "HEAD"]);
    let mut all: Vec<_> = all.lines().collect();
    let absent = "1".repeat(40);
    for (what, oid, own) in [
        ("a blob", &blob, vec![]),
        ("a tree", &tree, vec![]),
        ("a tag of a blob", &of_blob, vec![&of_blob]),
        ("a tag of a tree", &of_tree, vec![&of_tree]),
        ("a tag of a tag of a blob", &of_tag, vec![&of_tag, &of_blob]),
        ("a tag that lies", &lying, vec![&lying]),
        ("a tag of nothing", &of_nothing, vec![&of_nothing]),
        ("nothing", &absent, vec![]),
    ] {
        let own: Vec<_> = own.into_iter().map(String::as_str).collect();
        let known = all.len();
        all.extend(own);
        let bytes = pack(sender, &all);
        all.truncate(known);
        // As the only tip and beside a good one; complete by itself and not.
        let alone = header(&[&stage.base], &[("refs/heads/x", oid.as_str())]);
        let beside = header(&[], &[("refs/heads/a", &stage.tip), ("refs/heads/x", oid)]);
        for head in [alone, beside] {
            stage.refuses(&[head, bytes.clone()].concat(), 7, "bundle", what);
        }
    }
}

#[test]
fn i08_histories_with_holes() {
    let world = world();
    let stage = Stage::new(&world);
    let sender = &stage.sender;
    sender.commit("deep/er/a.txt", "2\n");
    let middle = sender.rev("HEAD");
    sender.commit("deep/er/a.txt", "3\n");
    let tip = sender.rev("HEAD");
    let range = [
        "rev-list",
        "--objects",
        "--no-object-names",
        &tip,
        &format!("^{}", stage.base),
    ];
    let objects = sender.ask(range);
    let objects: Vec<_> = objects.lines().collect();
    assert!(objects.len() > 9, "{objects:?}");
    for missing in &objects {
        let rest: Vec<_> = objects.iter().copied().filter(|oid| oid != missing).collect();
        let bytes = [header(&[&stage.base], &[("refs/heads/x", &tip)]), pack(sender, &rest)].concat();
        stage.refuses(&bytes, 7, "bundle", missing);
    }
    // Commits that the header does not name, and that are not here.
    let last = [header(&[], &[("refs/heads/x", &tip)]), pack(sender, &objects[..1])].concat();
    stage.refuses(&last, 7, "bundle", "all but the last commit");
    let needs = [
        header(&[&middle, &"2".repeat(40)], &[("refs/heads/x", &tip)]),
        pack(sender, &objects),
    ]
    .concat();
    stage.refuses(&needs, 8, &middle, "prerequisites that are not here");

    // A prerequisite that is here, that no ref reaches and behind which something is missing.
    let holed = sender.ask([
        "rev-list",
        "--objects",
        "--no-object-names",
        &middle,
        &format!("^{}", stage.base),
    ]);
    let hole = sender.rev(&format!("{middle}:deep/er/a.txt"));
    let holed: Vec<_> = holed.lines().filter(|oid| *oid != hole).collect();
    let partial = pack(sender, &holed);
    stage
        .receiver
        .user()
        .feed("git", "unpack-objects -q", &partial)
        .success();
    assert!(stage.receiver.has(&middle));
    let mine = [
        "rev-list",
        "--objects",
        "--no-object-names",
        &tip,
        &format!("^{middle}"),
    ];
    let mine = sender.ask(mine);
    let mine: Vec<_> = mine.lines().collect();
    for prerequisites in [&[middle.as_str()][..], &[]] {
        let bytes = [header(prerequisites, &[("refs/heads/x", &tip)]), pack(sender, &mine)].concat();
        stage.refuses(&bytes, 7, "bundle", "a prerequisite with a hole");
    }
}

#[test]
fn i12_names_and_files_that_lead_out_of_the_tree() {
    let world = world();
    let stage = Stage::new(&world);
    let sender = &stage.sender;
    let blob = object(sender, "blob", b"x");
    let modules = |text: &str| object(sender, "blob", format!("[submodule \"{text}\n").as_bytes());
    let dash = modules("x\"]\n\tpath = x\n\turl = -u./payload");
    let up = modules("../x\"]\n\tpath = x\n\turl = https://example.com/x");
    let dash_path = modules("x\"]\n\tpath = -x\n\turl = https://example.com/x");
    let newline = modules("x\"]\n\tpath = x\n\turl = \"https://example.com/\\nhost=evil.example\"");
    let no_host = modules("x\"]\n\tpath = x\n\turl = https:///example.com");
    let command = modules("x\"]\n\tpath = x\n\turl = https://example.com/x\n\tupdate = !touch pwned");
    let more: Vec<_> = (0..100).map(|number| object(sender, "blob", &[number])).collect();
    for (mode, name, oid) in [
        ("100644", ".git", &blob),
        ("100644", ".GIT", &blob),
        ("100644", ".gIt", &blob),
        ("100644", "git~1", &blob),
        ("100644", "GIT~1", &blob),
        ("100644", ".git.", &blob),
        ("100644", ".git ", &blob),
        ("100644", ".git::$INDEX_ALLOCATION", &blob),
        ("100644", ".g\u{200c}it", &blob),
        ("100644", ".\u{200d}git", &blob),
        ("100644", "..", &blob),
        ("100644", ".", &blob),
        ("100644", "", &blob),
        ("100644", "a/b", &blob),
        ("120000", ".gitmodules", &blob),
        ("100644", ".gitmodules", &dash),
        ("100644", ".gitmodules", &up),
        ("100644", ".gitmodules", &dash_path),
        ("100644", ".gitmodules", &newline),
        ("100644", ".gitmodules", &no_host),
        ("100644", ".gitmodules", &command),
    ] {
        let tree = object(sender, "tree", &tree_entry(mode, name, oid));
        let tip = commit(sender, &tree, None);
        let head = header(&[], &[("refs/heads/x", &tip)]);
        let refused = "git refused the bundle's objects";
        let few = pack(sender, &[&tip, &tree, oid]);
        stage.refuses(&[head.clone(), few].concat(), 7, refused, name);
        if [".git", ".g\u{200c}it", ".."].contains(&name) || *oid == command {
            // In a pack, where more than a hundred objects come.
            let mut oids: Vec<_> = more.iter().map(String::as_str).collect();
            oids.extend([tip.as_str(), &tree, oid]);
            stage.refuses(&[head, pack(sender, &oids)].concat(), 7, refused, name);
        }
        if [".GIT", "git~1", "."].contains(&name) {
            let outer = object(sender, "tree", &tree_entry("40000", "sub", &tree));
            let tip = commit(sender, &outer, None);
            let oids = [tip.as_str(), &outer, &tree, oid];
            let bytes = [header(&[], &[("refs/heads/x", &tip)]), pack(sender, &oids)].concat();
            stage.refuses(&bytes, 7, refused, name);
        }
    }
    // Twice the same name, and out of order: what is checked out would not be what is shown.
    for names in [["a", "a"], ["b", "a"]] {
        let entries = names.map(|name| tree_entry("100644", name, &blob)).concat();
        let tree = object(sender, "tree", &entries);
        let tip = commit(sender, &tree, None);
        let bytes = [
            header(&[], &[("refs/heads/x", &tip)]),
            pack(sender, &[&tip, &tree, &blob]),
        ]
        .concat();
        stage.refuses(&bytes, 7, "git refused the bundle's objects", "entries of a tree");
    }
}

#[test]
fn i13_what_is_legal_and_odd_is_taken_and_runs_nothing() {
    let world = world();
    let stage = Stage::new(&world);
    let sender = &stage.sender;
    let hook = world.path().join("pwned");
    let script = object(
        sender,
        "blob",
        format!("#!/bin/sh\ntouch '{}'\n", hook.display()).as_bytes(),
    );
    let attributes = object(sender, "blob", b"* filter=lfs diff=x merge=x\n");
    let modules = object(
        sender,
        "blob",
        b"[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c touch%20pwned\n[submodule \"y\"]\n\tpath = y\n\turl = parler::room/y\n",
    );
    let link = object(sender, "blob", b"../.git/hooks");
    let entries = [
        tree_entry("100644", "\u{1b}[2Jx", &script),
        tree_entry("100644", ".gitattributes", &attributes),
        tree_entry("100644", ".gitmodules", &modules),
        tree_entry("100755", "A", &script),
        tree_entry("100644", "CON", &script),
        tree_entry("100644", "a", &script),
        tree_entry("100644", "a\\..\\b", &script),
        tree_entry("120000", "link", &link),
        tree_entry("100755", "post-checkout", &script),
    ];
    let tree = object(sender, "tree", &entries.concat());
    let tip = commit(sender, &tree, None);
    let bytes = [
        header(&[], &[("refs/heads/x", &tip)]),
        pack(sender, &[&tip, &tree, &script, &attributes, &modules, &link]),
    ]
    .concat();
    // Configured as many are: hooks of the tree itself, a filter.
    stage.receiver.git("config core.hooksPath .").success();
    stage
        .receiver
        .git(["config", "filter.lfs.smudge", &format!("touch '{}'", hook.display())])
        .success();
    stage.takes(&bytes, "legal and odd");
    assert!(!hook.exists());
}

#[test]
fn i17_a_pin_that_was_moved_or_is_in_the_way() {
    let world = world();
    let stage = Stage::new(&world);
    let good = stage.good();
    let id = parler_protocol::BundleId::of(&good);
    let name = format!("refs/parler/{id}/x");
    stage.receiver.git(["update-ref", &name, "HEAD"]).success();
    stage.refuses(&good, 128, "refs/parler/", "a ref in the way");
    stage.receiver.git(["update-ref", "-d", &name]).success();

    // Nobody has anything else to name by the full id; under the short one another bundle may be.
    let full = format!("refs/parler/{id}");
    stage.receiver.git(["update-ref", &full, "HEAD"]).success();
    let head = stage.receiver.rev("HEAD");
    stage.takes(&good, "a pin that was moved");
    assert_eq!(stage.receiver.rev(&full), stage.tip, "it names what the bundle brought");
    for pin in stage.receiver.pins().into_keys() {
        stage.receiver.git(["update-ref", "-d", &pin]).success();
    }
    let short = format!("refs/parler/{}", id.short());
    stage.receiver.git(["update-ref", &short, "HEAD"]).success();
    stage.takes(&good, "a short name that is taken");
    assert_eq!(
        (stage.receiver.rev(&short), stage.receiver.rev(&full)),
        (head, stage.tip.clone())
    );
}
