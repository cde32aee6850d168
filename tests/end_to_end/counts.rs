//! What an ordinary push and fetch cost: requests to the hub, and git processes of the helper.

use parler_harness::{GitCounter, LocalHub, Repository, World};

use super::world;

struct Counted<'w> {
    work: Repository<'w>,
    bobs: Repository<'w>,
    counter: GitCounter,
}

/// Two clones whose helpers count their git children, both with a session at the hub and the room in their cache.
fn counted(world: &World) -> Counted<'_> {
    let origin = world.origin();
    let counter = GitCounter::new(world);
    let (work, bobs) = (world.clone_of(&origin, "work"), world.clone_of(&origin, "bobs"));
    for repository in [&work, &bobs] {
        repository.git("remote add team parler::room/try").success();
    }
    work.commit("a.txt", "one\n");
    work.git("push --quiet team HEAD:refs/heads/try").success();
    bobs.git("fetch --quiet team").success();
    Counted { work, bobs, counter }
}

/// Runs git with counters: the answers of the hub and the helper's git children.
#[track_caller]
fn cost(repository: &Repository<'_>, counter: &GitCounter, arguments: &str) -> (Vec<String>, Vec<String>) {
    let agent = repository.user().counted_by(counter);
    let hub = LocalHub::of(&agent);
    counter.take();
    let mark = hub.log().mark();
    agent.git(arguments).success();
    (hub.log().since(mark), counter.take())
}

#[test]
fn an_ordinary_push_is_two_requests_and_no_child() {
    let world = world();
    let Counted { work, bobs: _, counter } = counted(&world);
    work.commit("b.txt", "two\n");
    let (requests, children) = cost(&work, &counter, "push --quiet team HEAD:refs/heads/try");
    assert_eq!(requests.len(), 2, "{requests:#?}");
    assert!(requests[0].starts_with("GET /v1/rooms/{room}/pushes "), "{requests:#?}");
    assert_eq!(requests[1], "POST /v1/rooms/{room}/messages 201");
    assert_eq!(children, [""; 0]);
    // Who says how packs are made has git make them.
    work.has_git_pack();
    work.commit("c.txt", "three\n");
    let (_, children) = cost(&work, &counter, "push --quiet team HEAD:refs/heads/try");
    assert_eq!(children.len(), 1, "{children:#?}");
    assert!(children[0].contains("pack-objects"), "{children:#?}");
}

/// What a handoff brings is counted by one child, and whether the work tree is clean by another. A note counts nothing.
#[test]
fn a_push_with_a_handoff_has_two_children_more() {
    let world = world();
    let Counted { work, bobs: _, counter } = counted(&world);
    work.commit("b.txt", "two\n");
    let (requests, children) = cost(&work, &counter, "push --quiet -o next=look team HEAD:refs/heads/try");
    assert_eq!(requests.len(), 2, "{requests:#?}");
    assert_eq!(children.len(), 2, "{children:#?}");
    for name in ["diff-tree", "status"] {
        let of_name = children.iter().filter(|child| child.contains(name));
        assert_eq!(of_name.count(), 1, "{children:#?}");
    }
    work.commit("c.txt", "three\n");
    let (_, children) = cost(&work, &counter, "push --quiet -o note=look team HEAD:refs/heads/try");
    assert_eq!(children, [""; 0]);
}

/// The room is read once: to find the bundle, to count what it brings, and to know where the message goes.
#[test]
fn a_handoff_of_a_bundle_of_the_room_reads_it_once() {
    let world = world();
    let Counted { work, bobs: _, counter } = counted(&world);
    let log = work.user().parler("log --room try --json").success().json();
    let id = log["parts"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|part| part["blob"].as_str())
        .unwrap()
        .to_owned();
    let handoff = format!("parler handoff --room try --next look --bundle {id}");
    // Its own push comes back once.
    cost(&work, &counter, &handoff);
    for (checked_out, statuses) in [("main", 1), ("origin/main", 0)] {
        work.git(["checkout", "--quiet", "--detach", checked_out]).success();
        let (requests, children) = cost(&work, &counter, &handoff);
        assert_eq!(
            requests,
            ["GET /v1/rooms/{room}/pushes 304", "POST /v1/rooms/{room}/messages 201"]
        );
        // What is not checked out has no work tree to be looked at.
        let of_work_tree = children.iter().filter(|child| child.contains("status"));
        assert_eq!(of_work_tree.count(), statuses, "{children:#?}");
    }
}

/// It is read once, whatever is named by an id: the handoff, by its bundle, and the result.
#[test]
fn a_receipt_with_a_bundle_of_the_room_reads_it_once() {
    let world = world();
    let Counted { work, bobs, counter } = counted(&world);
    work.commit("b.txt", "two\n");
    let push = "push --quiet -o next=look team HEAD:refs/heads/try";
    work.git(push).success();
    bobs.git("fetch --quiet team").success();
    let log = work.user().parler("recv --all --room try --json").success().json();
    let ids: Vec<_> = log["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            let mut blobs = message["parts"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|part| part["blob"].as_str());
            blobs.next().unwrap().to_owned()
        })
        .collect();
    let [first, second] = ids.as_slice() else {
        panic!("{ids:?}")
    };
    for (verb, result) in [("accept", second), ("done", first)] {
        let receipt = format!("parler {verb} {second} --bundle {result} --room try");
        let (requests, _) = cost(&bobs, &counter, &receipt);
        let of_pushes = requests.iter().filter(|request| request.contains("/pushes"));
        assert_eq!(of_pushes.count(), 1, "{requests:#?}");
        assert_eq!(requests.len(), 3, "{requests:#?}");
    }
}

#[test]
fn a_push_of_a_new_branch_by_another_agent_costs_no_more() {
    let world = world();
    let Counted { work: _, bobs, counter } = counted(&world);
    // The first push of this agent, whose session is cached since its fetch.
    bobs.git("reset --quiet --hard team/try").success();
    bobs.commit("b.txt", "two\n");
    let (requests, children) = cost(&bobs, &counter, "push --quiet team HEAD:refs/heads/more");
    assert_eq!(requests.len(), 2, "{requests:#?}");
    assert_eq!(children, [""; 0]);
}

#[test]
fn an_ordinary_fetch_is_two_requests_and_no_child() {
    let world = world();
    let Counted { work, bobs, counter } = counted(&world);
    work.commit("b.txt", "two\n");
    work.git("push --quiet team HEAD:refs/heads/try").success();
    let (requests, children) = cost(&bobs, &counter, "fetch --quiet team");
    assert_eq!(requests.len(), 2, "{requests:#?}");
    assert!(
        requests[0].starts_with("GET /v1/rooms/{room}/pushes 200"),
        "{requests:#?}"
    );
    assert!(
        requests[1].starts_with("GET /v1/rooms/{room}/bundles 200"),
        "{requests:#?}"
    );
    assert_eq!(children, [""; 0]);
    assert_eq!(bobs.rev("team/try"), work.rev("HEAD"));
}

#[test]
fn several_bundles_are_fetched_in_the_same_two_requests() {
    let world = world();
    let Counted { work, bobs, counter } = counted(&world);
    for number in 0..5 {
        work.commit(&format!("more{number}"), "x\n");
        work.git("push --quiet team HEAD:refs/heads/try").success();
    }
    let (requests, children) = cost(&bobs, &counter, "fetch --quiet team");
    assert_eq!(requests.len(), 2, "{requests:#?}");
    assert_eq!(children, [""; 0]);
    assert_eq!(bobs.rev("team/try"), work.rev("HEAD"));
}

#[test]
fn where_nothing_is_new_one_request_tells() {
    let world = world();
    let Counted { work, bobs, counter } = counted(&world);
    // The pusher has not seen its own push as the hub stored it: the first look brings it.
    let (requests, _) = cost(&work, &counter, "push --quiet team HEAD:refs/heads/try");
    assert_eq!(requests, ["GET /v1/rooms/{room}/pushes 200"]);
    for (repository, command) in [
        (&bobs, "fetch --quiet team"),
        (&work, "push --quiet team HEAD:refs/heads/try"),
        (&work, "fetch --quiet team"),
    ] {
        let (requests, _) = cost(repository, &counter, command);
        assert_eq!(requests, ["GET /v1/rooms/{room}/pushes 304"], "{command}");
    }
    // Talk is no push: it costs nobody a transfer.
    work.user().parler(["send", "--room", "try", "hello"]).success();
    let (requests, children) = cost(&bobs, &counter, "fetch --quiet team");
    assert_eq!(requests, ["GET /v1/rooms/{room}/pushes 304"]);
    assert!(children.len() <= 3, "{children:#?}");
}

#[test]
fn a_clone_is_two_requests() {
    let world = world();
    let whole = world.init("whole", "");
    for number in 0..3 {
        whole.commit(&format!("file{number}"), "x\n");
        whole.git("push --quiet parler::room/whole main").success();
    }
    let hub = LocalHub::of(&whole.user());
    let mark = hub.log().mark();
    // The agent of the directory where git clone was called, which has a session to open first.
    let copy = world.clone_with("parler::room/whole", "copy", "");
    let requests = hub.log().since(mark);
    let of_room: Vec<_> = requests
        .iter()
        .filter(|request| !request.contains("/v1/session"))
        .collect();
    assert_eq!(of_room.len(), 2, "{requests:#?}");
    assert_eq!(copy.rev("HEAD"), whole.rev("HEAD"));
}

#[test]
fn pins_do_not_pile_up_as_files() {
    for by_git in [false, true] {
        let world = world();
        let Counted { work, bobs, counter } = counted(&world);
        let files = |repository: &Repository<'_>| {
            std::fs::read_dir(repository.common_dir().join("refs/parler")).map_or(0, Iterator::count)
        };
        let packs_by_pattern = work.git("pack-refs -h").either().out().contains("--include");
        let branch = work.common_dir().join("refs/heads/main");
        assert!(branch.exists());
        if by_git {
            work.has_git_pin();
        }
        let mut most = 0;
        for number in 0..55 {
            work.commit("more.txt", &format!("{number}\n"));
            work.git("push --quiet team HEAD:refs/heads/try").success();
            most = most.max(files(&work));
        }
        if by_git {
            assert!(most >= 98, "{most}");
            // The two of each push after the last packing. What is not ours stays where it is.
            assert!(files(&work) < 20 || !packs_by_pattern, "{}", files(&work));
        } else {
            assert_eq!(most, 0);
        }
        assert!(branch.exists());
        assert_eq!(work.pins().len(), 2 * 56);
        let (_, children) = cost(&bobs, &counter, "fetch --quiet team");
        assert!(children.len() <= 4, "{children:#?}");
        assert_eq!((files(&bobs), bobs.pins().len()), (0, 2 * 56));
        let (_, children) = cost(&bobs, &counter, "fetch --quiet team");
        assert!(children.len() <= 3, "{children:#?}");
        bobs.fsck();
    }
}
