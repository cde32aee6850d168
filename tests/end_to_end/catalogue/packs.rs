//! Packs that lie about what is in them, and packs that become too much.

use super::forge::{
    BLOB, COMMIT, Pack, TREE, append, blob_id, commit, commit_text, header, insert, object, pack, raw, repeat,
    repeat_and, tree_entry,
};
use super::stage::Stage;
use crate::world;

/// A pack in a bundle of one ref at a commit that it has not.
fn bundle(stage: &Stage<'_>, pack: &[u8]) -> Vec<u8> {
    [
        header(&[&stage.base], &[("refs/heads/x", &"4".repeat(40))]),
        pack.to_vec(),
    ]
    .concat()
}

#[test]
fn i09_packs_with_something_behind_them_or_cut_off() {
    let world = world();
    let stage = Stage::new(&world);
    let good = stage.good();
    for more in [&b"\n"[..], b"\nok refs/heads/x\n", b"\x1b[31m", b"PACK", &[0; 100_000]] {
        stage.refuses(
            &[&good, more].concat(),
            7,
            "more follows its last entry",
            "more behind it",
        );
    }
    // Each byte near the end, and some of the others: a test of the library takes all of them.
    let pack = good.windows(4).position(|four| four == b"PACK").unwrap();
    let lengths = (good.len() - 24..good.len())
        .chain((0..good.len()).step_by(97))
        .chain(pack - 2..pack + 14);
    for length in lengths {
        stage.refuses(&good[..length], 7, "bundle", &format!("the first {length} bytes"));
    }
    let mut wrong = good.clone();
    *wrong.last_mut().unwrap() ^= 1;
    stage.refuses(&wrong, 7, "bundle", "a wrong checksum");
    // What it was before anything was looked at.
    stage.takes(&good, "the bundle itself");
}

#[test]
fn i10_packs_that_do_not_add_up() {
    let world = world();
    let stage = Stage::new(&world);
    let one = || Pack::new().blob(b"x");
    let depth = |most: u32| {
        let same = [1, 1, 0x90, 1];
        (0..most).fold(one(), |pack, _| pack.delta(&same)).end()
    };
    // Each is its own object, made of the one before, which is named by its id.
    let named = {
        let mut content = vec![b'x'];
        let mut pack = one();
        for number in 0..5000_u32 {
            let next = number.to_string().into_bytes();
            pack = pack.delta_on(
                &blob_id(&content),
                &insert(content.len() as u64, next.len() as u64, &next),
            );
            content = next;
        }
        pack.end()
    };
    let no_kind = Pack::new().entry(5, 1, &[], b"x").end();
    let long_size = [&[0xbf][..], &[0xff; 9], &[0x7f], &[0; 40]].concat();
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "four thousand million objects",
            one().end_counting(u32::MAX),
            "announces",
        ),
        ("five million objects", one().end_counting(5_000_000), "announces"),
        ("one object less", one().end_counting(0), "more follows"),
        (
            "one object more",
            Pack::new().blob(&[b'x'; 40]).bytes(&[]).end(),
            "pack is not taken",
        ),
        (
            "a delta on what is before the pack",
            one().delta_back(1 << 20, &[1, 1, 0x90, 1]).end(),
            "a delta builds on",
        ),
        (
            "a delta on itself",
            one().delta_back(0, &[1, 1, 0x90, 1]).end(),
            "no proper header",
        ),
        (
            "a delta on the middle of an entry",
            one().delta_back(3, &[1, 1, 0x90, 1]).end(),
            "a delta builds on",
        ),
        (
            "two deltas on each other",
            Pack::new()
                .delta_on(&[7; 20], &[1, 1, 0x90, 1])
                .delta_on(&[8; 20], &[1, 1, 0x90, 1])
                .end(),
            "bundle",
        ),
        ("deltas 5,000 deep", depth(5000), "bundle"),
        ("deltas 5,000 deep, by name", named, "bundle"),
        ("a kind that is none", no_kind, "no proper header"),
        (
            "a size that is too long",
            Pack::new().bytes(&long_size).end(),
            "no proper header",
        ),
        (
            "a size that is too small",
            Pack::new().entry(BLOB, 2, &[], b"xyz").end(),
            "inflate",
        ),
        (
            "a size that is too large",
            Pack::new().entry(BLOB, 4, &[], b"xyz").end(),
            "inflate",
        ),
        (
            "what is not compressed",
            Pack::new().bytes(b"\x33xyzxyzxyzxyz").end(),
            "inflate",
        ),
        (
            "a delta for another base",
            one().delta(&[9, 1, 0x90, 1]).end(),
            "bundle",
        ),
        ("a delta beyond its base", one().delta(&[1, 9, 0x90, 9]).end(), "bundle"),
    ];
    for (what, pack, words) in cases {
        stage.refuses_cheaply(&bundle(&stage, &pack), words, what);
    }
}

#[test]
fn i11_bombs_cost_little() {
    let world = world();
    let stage = Stage::new(&world);
    // Each twice as large as the one before: 1 GiB of a few hundred bytes.
    let mut doubling = Pack::new().blob(&[b'x'; 1 << 16]);
    for step in 0..14 {
        doubling = doubling.delta(&repeat(1 << (16 + step), 2));
    }
    let doubling = doubling.end();
    assert!(doubling.len() < 2000, "{}", doubling.len());
    let zeros = vec![0; 20 << 20];
    // Each almost as large as an object may be, and all of them together 5 GiB.
    let base = (Pack::new().blob(&[b'x'; 1 << 20]), 1_u64 << 20);
    let wide = (0..45).fold(base.0, |pack, step| {
        // The first as it is, the others on the same base: the distance grows by what each takes.
        let delta = repeat(base.1, 120);
        if step == 0 {
            pack.delta(&delta)
        } else {
            pack.delta_to_first(&delta)
        }
    });
    for (what, pack, words) in [
        ("deltas that double", doubling, "parler.maxObjectSize"),
        (
            "zeros",
            Pack::new().entry(BLOB, 200 << 20, &[], &zeros).end(),
            "parler.maxObjectSize",
        ),
        (
            "zeros that say they are few",
            Pack::new().entry(BLOB, 100, &[], &zeros).end(),
            "inflate",
        ),
        (
            "more than there is",
            Pack::new().entry(BLOB, u64::MAX >> 4, &[], b"x").end(),
            "parler.maxObjectSize",
        ),
        ("many large ones", wide.end(), "parler.maxObjectSize"),
    ] {
        stage.refuses_cheaply(&bundle(&stage, &pack), words, what);
    }
}

#[test]
fn i11_what_is_just_small_enough_costs_little_too() {
    let world = world();
    let stage = Stage::new(&world);
    let large = || Pack::new().blob(&[b'x'; 1 << 20]).delta(&repeat(1 << 20, 127));
    let tiny = |pack: Pack, count: u32| (0..count).fold(pack, |pack, number| pack.blob(&number.to_le_bytes()));
    // In one child and in the other. What is refused here is that the tip is not there.
    stage.refuses_cheaply(&bundle(&stage, &large().end()), "bundle", "one large object, unpacked");
    stage.refuses_cheaply(
        &bundle(&stage, &tiny(large(), 101).end()),
        "bundle",
        "one large object, in a pack",
    );
    stage.refuses_cheaply(
        &bundle(&stage, &tiny(Pack::new(), 200_000).end()),
        "bundle",
        "200,000 tiny objects",
    );
    // Commits are held in memory until all are checked, which the child's limit ends.
    let tree = stage.sender.rev("HEAD^{tree}");
    let base = commit_text(&tree, None, &"m".repeat(1 << 20));
    let commits = (0..6_u8).fold(Pack::new().object(COMMIT, base.as_bytes()), |pack, number| {
        pack.delta_to_first(&repeat_and(base.len() as u64, 110, &[b'0' + number]))
    });
    stage.refuses_cheaply(&bundle(&stage, &commits.end()), "memory", "commits of 110 MiB");
}

/// Git holds something of each object, before it knows what any of them is.
#[test]
fn i11_very_many_objects_cost_nothing() {
    let world = world();
    let stage = Stage::new(&world);
    let tiny = (0..100_000_u32).fold(Pack::new(), |pack, number| pack.blob(&number.to_le_bytes()));
    let tiny = tiny.end();
    let say = |most: &str| {
        stage.receiver.git(["config", "parler.maxObjects", most]).success();
    };
    say("99999");
    stage.refuses_cheaply(&bundle(&stage, &tiny), "parler.maxObjects", "one too many");
    say("100000");
    stage.refuses_cheaply(&bundle(&stage, &tiny), "bundle", "as many as may be");
    say("1000");
    // Where they are not so small there may be more.
    let larger = (0..20_000_u32).fold(Pack::new(), |pack, number| {
        pack.blob(&crate::noise(100, u64::from(number)))
    });
    stage.refuses_cheaply(&bundle(&stage, &larger.end()), "bundle", "more than 80 bytes each");
    say("many");
    stage.refuses(&bundle(&stage, &tiny), 2, "parler.maxObjects", "no number");
}

/// What is larger goes to git as it comes, and may become more; it is to cost no more memory.
#[test]
fn i11_a_large_pack_costs_little_too() {
    let world = world();
    let stage = Stage::new(&world);
    let noise = Pack::new().blob(&crate::noise(33 << 20, 1)).entries();
    let beside_noise = || Pack::new().bytes(&noise);
    let zeros = vec![0; 300 << 20];
    let large = |pack: Pack, byte: u8| pack.blob(&vec![byte; 1 << 20]).delta(&repeat(1 << 20, 120));
    let again = |pack: Pack, byte: u8| pack.delta(&append(120 << 20, &[byte]));
    let cases = [
        ("a file of 300 MiB", beside_noise().blob(&zeros), "bundle"),
        (
            "two histories of a file of 120 MiB",
            again(large(again(large(beside_noise(), 1), 2), 3), 4),
            "bundle",
        ),
        (
            "a file of 200 MiB that is made of another",
            beside_noise().blob(&[1; 1 << 20]).delta(&repeat(1 << 20, 200)),
            "parler.maxObjectSize",
        ),
        (
            "a tree of 300 MiB",
            beside_noise().object(TREE, &zeros),
            "parler.maxObjectSize",
        ),
        (
            "files of 10 GiB together",
            (0..85).fold(beside_noise().blob(&[1; 1 << 20]), |pack, step| match step {
                0 => pack.delta(&repeat(1 << 20, 120)),
                _ => pack.delta(&append(120 << 20, b"x")).delta(&repeat(120 << 20, 1)),
            }),
            "parler.maxObjectSize",
        ),
    ];
    for (what, pack, words) in cases {
        let pack = bundle(&stage, &pack.end());
        assert!(pack.len() > 32 << 20);
        stage.refuses_cheaply(&pack, words, what);
    }
}

#[test]
fn i11_a_tree_of_trees_is_a_few_objects_until_it_is_checked_out() {
    let world = world();
    let stage = Stage::new(&world);
    let sender = &stage.sender;
    let mut oids = vec![object(sender, "blob", b"x")];
    for level in 0..10 {
        let (mode, below) = (if level == 0 { "100644" } else { "40000" }, oids[level].clone());
        let entries = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"].map(|name| tree_entry(mode, name, &below));
        oids.push(object(sender, "tree", &entries.concat()));
    }
    let tip = commit(sender, &oids[10], None);
    let mut all: Vec<_> = oids.iter().map(String::as_str).collect();
    all.push(&tip);
    let bytes = [header(&[], &[("refs/heads/x", &tip)]), pack(sender, &all)].concat();
    stage.takes(&bytes, "ten thousand million files");
    let there = stage.receiver.ask(["rev-list", "--objects", "--count", &tip]);
    assert_eq!(there, "12");
}

#[test]
fn i11_a_large_object_is_taken_where_the_configuration_says_so() {
    let world = world();
    let stage = Stage::new(&world);
    let content = vec![b'x'; 3 << 20];
    let blob = object(&stage.sender, "blob", &content);
    let tree = object(&stage.sender, "tree", &tree_entry("100644", "large", &blob));
    let tip = commit(&stage.sender, &tree, None);
    let oids = [tip.as_str(), &tree, &blob];
    let bytes = [header(&[], &[("refs/heads/x", &tip)]), pack(&stage.sender, &oids)].concat();
    assert!(bytes.len() < 8 << 10, "{}", bytes.len());
    let say = |size: &str| {
        stage.receiver.git(["config", "parler.maxObjectSize", size]).success();
    };
    say("lots");
    stage.refuses(&bytes, 2, "parler.maxObjectSize", "no size");
    say("2m");
    // Beside what does not compress, more may come of it.
    let beside = {
        let noise = object(&stage.sender, "blob", &crate::noise(80_000, 5));
        let entries = [
            tree_entry("100644", "large", &blob),
            tree_entry("100644", "noise", &noise),
        ];
        let tree = object(&stage.sender, "tree", &entries.concat());
        let tip = commit(&stage.sender, &tree, None);
        let oids = [tip.as_str(), &tree, &blob, &noise];
        [header(&[], &[("refs/heads/x", &tip)]), pack(&stage.sender, &oids)].concat()
    };
    stage.takes(&beside, "a larger pack");
    // A delta on what is here may make as much again.
    let longer = [content, b"y".to_vec()].concat();
    let other = object(&stage.sender, "blob", &longer);
    let tree = object(&stage.sender, "tree", &tree_entry("100644", "large", &other));
    let next = commit(&stage.sender, &tree, Some(&tip));
    let pack = Pack::new()
        .object(COMMIT, commit_text(&tree, Some(&tip), "x").as_bytes())
        .object(TREE, &tree_entry("100644", "large", &other))
        .delta_on(&raw(&blob), &append(3 << 20, b"y"))
        .end();
    let thin = [header(&[&tip], &[("refs/heads/x", &next)]), pack].concat();
    stage.refuses(&thin, 8, &tip, "before its base is here");
    say("4m");
    stage.takes(&bytes, "3 MiB");
    stage.receiver.git(["update-ref", "refs/heads/large", &tip]).success();
    say("2m");
    stage.takes(&thin, "a delta on what is here");
}
