//! The conversation itself: what is answered to what, and how it ends when git, or what plays git, misbehaves.

use git_remote_parler::session::SessionError;

use crate::world::World;

#[test]
fn capabilities_and_options_are_answered_line_by_line() {
    let world = World::new();
    let agent = world.agent("alice");
    let (said, result) = agent.talk(
        None,
        "capabilities\r\noption progress true\noption object-format\noption followtags true\noption depth 1\n\n",
    );
    result.unwrap();
    assert_eq!(
        said.stdout,
        "fetch\npush\noption\nobject-format\n\nok\nok\nok\nunsupported\n"
    );
    assert!(said.stderr.contains("whole histories"), "{}", said.stderr);
}

#[test]
fn garbage_ends_the_session_without_an_answer() {
    let world = World::new();
    let agent = world.agent("alice");
    let repository = world.sandbox.init("r", &[]);
    repository.commit("a", "1\n");
    for (lines, expected) in [
        ("hello\n", "not understood"),
        ("connect git-upload-pack\n", "not understood"),
        ("push a\n\n", "not understood"),
        ("fetch x y\n\n", "not understood"),
        ("push HEAD:refs/heads/x\n", "middle of a command"),
        ("push HEAD:refs/heads/x", "middle of a command"),
        ("push HEAD:refs/heads/x\nlist\n\n", "not understood"),
    ] {
        let (said, result) = agent.talk(Some(&repository.git_dir()), lines);
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{lines:?}: {error}");
        assert_eq!(said.stdout, "", "{lines:?}");
    }
    let (_, result) = agent.talk(None, &format!("option {}\n", "x".repeat(2 << 20)));
    assert!(matches!(result, Err(SessionError::LineTooLong)));
    assert!(agent.talk(None, "").1.is_ok());
}

#[test]
fn outside_a_repository_a_room_can_be_listed_and_no_more() {
    let world = World::new();
    let agent = world.agent("alice");
    let repository = world.sandbox.init("r", &[]);
    let tip = repository.commit("a", "1\n");
    agent.pushes(&repository, &["refs/heads/main:refs/heads/main"]);
    let (said, result) = agent.talk(None, "option object-format true\nlist\n\n");
    result.unwrap();
    assert!(said.stdout.contains(&format!(
        ":object-format sha1\n@refs/heads/main HEAD\n{tip} refs/heads/main\n"
    )));
    assert!(matches!(
        agent.talk(None, "list for-push\n\n").1,
        Err(SessionError::NoRepository)
    ));
    let fetch = format!("list\nfetch {tip} refs/heads/main\n\n");
    assert!(matches!(agent.talk(None, &fetch).1, Err(SessionError::NoRepository)));
}

#[test]
fn a_room_that_is_not_there_is_named() {
    let world = World::new();
    let agent = world.agent("alice");
    let (said, result) = agent.talk(None, "list\n\n");
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("no room 'x' that you belong to: git parler join CODE"),
        "{error}"
    );
    assert_eq!(said.stdout, "");
    let repository = world.sandbox.init("r", &[]);
    repository.commit("a", "1\n");
    repository.git(&["config", "parler.createRoom", "false"]);
    let (said, result) = agent.talk(Some(&repository.git_dir()), "list for-push\npush HEAD:refs/heads/x\n\n");
    assert!(result.unwrap_err().to_string().contains("no room 'x'"));
    assert_eq!(said.stdout, "");
}

#[test]
fn sha256_rooms_meet_sha256_repositories_only() {
    let world = World::new();
    let agent = world.agent("alice");
    let large = world.sandbox.init("large", &["--object-format=sha256"]);
    large.commit("a", "1\n");
    agent.pushes(&large, &["refs/heads/main:refs/heads/main"]);
    let other = world.sandbox.init("other", &["--object-format=sha256"]);
    let tip = large.oid("HEAD");
    let lines = format!("option object-format true\nlist\nfetch {tip} refs/heads/main\n\n\n");
    let (said, result) = agent.talk(Some(&other.git_dir()), &lines);
    result.unwrap();
    assert!(said.stdout.starts_with("ok\n:object-format sha256\n"));
    other.git(&["cat-file", "-e", &tip.to_string()]);

    let small = world.sandbox.init("small", &[]);
    small.commit("a", "1\n");
    for lines in [
        "list for-push\npush HEAD:refs/heads/x\n\n\n".to_owned(),
        format!("option object-format true\nlist\nfetch {tip} refs/heads/main\n\n\n"),
        "list\n\n".to_owned(),
    ] {
        let error = agent.talk(Some(&small.git_dir()), &lines).1.unwrap_err().to_string();
        assert!(error.contains("sha256"), "{error}");
    }
}
