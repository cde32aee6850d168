//! Tags travel as they are, byte for byte, and only when git says so.

use super::{room_refs, world};

#[test]
fn annotated_and_light_tags_arrive_byte_for_byte() {
    let world = world();
    let origin = world.origin();
    let alice = world.clone_of(&origin, "alice");
    let bob = world.clone_of(&origin, "bob");
    let commit = alice.commit("a.txt", "one\n");
    alice
        .git([
            "tag",
            "--annotate",
            "v1",
            "--message",
            "The first one\n\nwith a second paragraph, é",
        ])
        .success();
    alice.git("tag light").success();
    // A tag of a tag, and one on a commit that everybody has.
    alice
        .git(["tag", "--annotate", "nested", "v1", "--message", "a tag of a tag"])
        .success();
    alice
        .git([
            "tag",
            "--annotate",
            "old",
            "origin/main",
            "--message",
            "a tag of the past",
        ])
        .success();

    let push = alice.git("push parler::room/try HEAD:refs/heads/try --tags").success();
    push.warns(" * [new tag]");
    let shown = room_refs(&bob.user(), "try");
    assert_eq!(shown["refs/tags/light"], commit);
    assert_eq!(shown["refs/tags/v1"], alice.rev("v1"));
    assert_eq!(shown["refs/tags/v1^{}"], commit);
    assert_eq!(shown["refs/tags/nested^{}"], commit);

    bob.git("fetch --quiet parler::room/try refs/tags/*:refs/tags/*")
        .success();
    for tag in ["v1", "light", "nested", "old"] {
        assert_eq!(bob.rev(tag), alice.rev(tag), "{tag}");
    }
    for tag in ["v1", "nested", "old"] {
        let bytes = |repository: &parler_harness::Repository<'_>| {
            repository.git(["cat-file", "tag", tag]).success().out_bytes().to_vec()
        };
        assert_eq!(bytes(&bob), bytes(&alice), "{tag}");
    }
    bob.fsck();
}

#[test]
fn a_tag_that_ssh_keygen_signed_is_verified_where_it_arrives() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|directory| directory.join("ssh-keygen").is_file()) {
        println!("no ssh-keygen here: nothing is signed");
        return;
    }
    let world = world();
    let origin = world.origin();
    let alice = world.clone_of(&origin, "alice");
    let bob = world.clone_of(&origin, "bob");
    let key = world.path().join("key").display().to_string();
    let made = alice.user().run(
        "ssh-keygen",
        ["-q", "-t", "ed25519", "-N", "", "-C", "alice", "-f", &key],
    );
    made.success();
    alice.git("config gpg.format ssh").success();
    alice
        .git(["config", "user.signingKey", &format!("{key}.pub")])
        .success();
    alice.commit("a.txt", "one\n");
    alice.git("tag --sign signed --message signed").success();
    alice
        .git("push --quiet parler::room/try HEAD:refs/heads/try signed")
        .success();
    bob.git("fetch --quiet parler::room/try tag signed").success();
    let bytes = |place: &parler_harness::Repository<'_>| {
        let tag = place.git("cat-file tag signed").success();
        tag.out_bytes().to_vec()
    };
    assert_eq!(bytes(&bob), bytes(&alice));
    let public = std::fs::read_to_string(format!("{key}.pub")).unwrap();
    let signers = bob.write("signers", format!("alice@example.com {public}"));
    bob.git("config gpg.format ssh").success();
    bob.git(["config", "gpg.ssh.allowedSignersFile", signers.to_str().unwrap()])
        .success();
    bob.git("verify-tag signed")
        .success()
        .warns("Good \"git\" signature for alice@example.com");
}

#[test]
fn a_fetched_branch_brings_its_tags_along() {
    let world = world();
    let origin = world.origin();
    let alice = world.clone_of(&origin, "alice");
    let bob = world.clone_of(&origin, "bob");
    bob.git("remote add team parler::room/try").success();
    alice.git("push parler::room/try HEAD:refs/heads/try").success();
    bob.git("fetch --quiet team").success();

    alice.commit("a.txt", "one\n");
    alice.git(["tag", "--annotate", "v1", "--message", "first"]).success();
    alice.git("push parler::room/try HEAD:refs/heads/try v1").success();
    bob.git("fetch --quiet team").success();
    assert_eq!(bob.rev("v1"), alice.rev("v1"));
    assert_eq!(bob.rev("team/try"), alice.rev("HEAD"));

    alice.git("tag later").success();
    alice.git("push parler::room/try later").success();
    bob.git("fetch --quiet --no-tags team").success();
    assert!(!bob.has("refs/tags/later"));
}

#[test]
fn a_tag_is_not_moved_without_force() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let first = work.commit("a.txt", "one\n");
    work.git("tag v1").success();
    work.git("push --quiet parler::room/try HEAD:refs/heads/try v1")
        .success();
    work.commit("b.txt", "two\n");
    work.git("tag --force v1").success();

    let refused = work.git("push parler::room/try v1").code(1);
    refused.warns("! [rejected]").warns("(already exists)");
    assert_eq!(room_refs(&work.user(), "try")["refs/tags/v1"], first);

    work.git("push --force parler::room/try v1").success();
    assert_eq!(room_refs(&work.user(), "try")["refs/tags/v1"], work.rev("v1"));
    work.git("push parler::room/try :refs/tags/v1")
        .success()
        .warns(" - [deleted]");
    assert!(!room_refs(&work.user(), "try").contains_key("refs/tags/v1"));
}

#[test]
fn push_follow_tags_sends_the_annotated_ones_on_the_way() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    work.commit("a.txt", "one\n");
    work.git(["tag", "--annotate", "v1", "--message", "first"]).success();
    work.git("tag light").success();
    work.git("push --quiet --follow-tags parler::room/try HEAD:refs/heads/try")
        .success();
    let shown = room_refs(&work.user(), "try");
    assert_eq!(shown["refs/tags/v1"], work.rev("v1"));
    assert!(!shown.contains_key("refs/tags/light"));
}
