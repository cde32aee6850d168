//! `git parler fetch`: a bundle as a file. What the hub sends is kept when it is what its author signed for, and nothing
//! is made or replaced besides.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use parler_harness::{LocalHub, Repository, World};
use rusqlite::Connection;

use super::world;

/// A repository that has pushed one bundle, and the bundle's id.
fn pushed(world: &World) -> (Repository<'_>, String) {
    let work = world.clone_of(&world.origin(), "work");
    work.commit("a.txt", "one\n");
    let push = work.user().parler("push --room try HEAD:refs/heads/try --json");
    let id = push.success().json()["bundleId"].as_str().unwrap().to_owned();
    (work, id)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_file_is_made_and_nothing_else() {
    let world = world();
    let (work, id) = pushed(&world);
    let place = world.directory("place");
    let user = work.user().with("PARLER_ROOM", "try").within(&place);
    user.parler(format!("fetch {id} --json")).success();
    let file = format!("{}.bundle", &id[..12]);
    assert_eq!(names(&place), std::slice::from_ref(&file));
    work.git(["bundle", "verify", place.join(&file).to_str().unwrap()])
        .success();
    // Again: on request the file is replaced, as a whole.
    fs::write(place.join(&file), "old").unwrap();
    let printed = user.parler(format!("fetch {id} -o -")).success();
    let refused = user.parler(format!("fetch {id}")).code(6);
    assert!(refused.one_error_line().contains("--force"), "{refused:?}");
    assert_eq!(fs::read(place.join(&file)).unwrap(), b"old");
    user.parler(format!("fetch {id} --force")).success();
    assert_eq!(fs::read(place.join(&file)).unwrap(), printed.out_bytes());
    assert_eq!(names(&place), [file]);
    assert!(names(&world.temporary()).is_empty());

    fs::create_dir(place.join("directory")).unwrap();
    symlink("/dev/null", place.join("device")).unwrap();
    for taken in ["directory", "device"] {
        let refused = user.parler(format!("fetch {id} -o {taken}")).code(7);
        assert!(refused.one_error_line().contains(taken), "{refused:?}");
    }
    assert!(place.join("device").is_symlink());
}

#[test]
fn other_bytes_than_its_author_signed_for_are_not_kept() {
    let world = world();
    let (work, id) = pushed(&world);
    let user = work.user().with("PARLER_ROOM", "try");
    let good = user.parler(format!("fetch {id} -o -")).success().out_bytes().to_vec();
    let longer = [good.as_slice(), &[0; 4096]].concat();
    let mut other = good.clone();
    *other.last_mut().unwrap() ^= 1;
    // Of bytes that do not hash to the id an honest hub holds back the last.
    for (bytes, words) in [(longer, "offers"), (other, "bundle")] {
        LocalHub::of(&user).kill(&world);
        // As a large one, which is a file whose bytes the hub does not hash again.
        let data = world.parler_home().join("data/hub/rooms");
        let directory = data.join("blobs").join(&id[..2]);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(&id), &bytes).unwrap();
        Connection::open(data.join("hub.db"))
            .unwrap()
            .execute("UPDATE blobs SET size = ?1, bytes = NULL", [bytes.len() as i64])
            .unwrap();
        for target in ["-", "kept.bundle"] {
            let refused = user.parler(format!("fetch {id} -o {target}")).failure();
            assert!(refused.one_error_line().contains(words), "{refused:?}");
            assert!(refused.out_bytes().is_empty());
        }
    }
    assert_eq!(work.ask("status --porcelain"), "");
}
