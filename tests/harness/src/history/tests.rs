//! Histories made by hand: what one order explains is taken, and each kind of lie is refused.

use super::*;

fn id(number: u8) -> MessageId {
    let text = format!("01890a5d-ac96-774b-bcce-b302099a80{number:02}");
    text.parse().expect("a message's id")
}

fn oid(digit: char) -> Oid {
    digit.to_string().repeat(40).parse().expect("an object's id")
}

fn main() -> RefName {
    "refs/heads/main".parse().expect("a ref's name")
}

/// Message `number` moves main from and to these places.
fn moves(number: u8, old: Option<char>, new: char) -> Entry {
    Entry {
        id: id(number),
        moves: vec![(main(), old.map(oid), Some(oid(new)))],
    }
}

/// From and until when, in seconds, and what.
fn at(begun: u64, ended: u64, event: Event) -> Operation {
    Operation {
        begun: Duration::from_secs(begun),
        ended: Duration::from_secs(ended),
        event,
    }
}

fn stored(number: u8, seq: u64) -> Event {
    Event::Stored { id: id(number), seq }
}

fn refused(expected: Option<char>, actual: Option<char>) -> Event {
    Event::Refused {
        name: main(),
        expected: expected.map(oid),
        actual: Some(actual.map(oid)),
    }
}

fn saw(seq: u64, place: Option<char>) -> Event {
    let refs = place.map(|place| (main(), oid(place)));
    Event::SawRefs {
        seq,
        refs: refs.into_iter().collect(),
    }
}

/// Main is made at 1, and moved from 1 to 2 and from 2 to 3.
fn log() -> Vec<Entry> {
    vec![moves(1, None, '1'), moves(2, Some('1'), '2'), moves(3, Some('2'), '3')]
}

fn honest() -> Vec<Operation> {
    vec![
        at(0, 2, stored(1, 1)),
        at(1, 5, Event::SawHead { seq: 0 }),
        at(3, 6, stored(2, 2)),
        // Both orders of these two are possible.
        at(4, 7, saw(1, Some('1'))),
        at(4, 7, refused(None, Some('2'))),
        at(8, 9, Event::Unknown { id: id(3) }),
        at(9, 12, saw(3, Some('3'))),
        at(10, 11, refused(Some('1'), Some('2'))),
    ]
}

#[test]
fn what_one_order_explains_is_taken() {
    assert_eq!(check(&honest(), &log(), 0), Ok(()));
    // A push that was told of success alone.
    let to = |digit| Event::Moved {
        name: main(),
        to: oid(digit),
    };
    let late = [at(0, 1, to('2')), at(2, 3, Event::SawHead { seq: 2 })];
    assert_eq!(check(&late, &log()[..2], 1), Ok(()));
    let lost = [at(0, 1, to('3'))];
    assert_eq!(
        check(&lost, &log()[..2], 2),
        Err(Anomaly::Lost(Box::new(lost[0].clone())))
    );
}

#[test]
fn a_ref_that_was_overwritten_is_found() {
    let mut log = log();
    log[2] = moves(3, Some('1'), '3');
    let name = main();
    assert_eq!(check(&honest(), &log, 0), Err(Anomaly::Overwritten { seq: 3, name }));
}

#[test]
fn a_message_that_is_lost_moved_or_doubled_is_found() {
    let lost = honest();
    assert_eq!(
        check(&lost, &log()[..1], 0),
        Err(Anomaly::Lost(Box::new(lost[2].clone())))
    );
    let alone = [at(0, 1, stored(2, 2))];
    assert_eq!(
        check(&alone, &log()[..1], 1),
        Err(Anomaly::Lost(Box::new(alone[0].clone())))
    );
    let elsewhere = [at(0, 1, stored(2, 3))];
    assert_eq!(
        check(&elsewhere, &log(), 3),
        Err(Anomaly::Lost(Box::new(elsewhere[0].clone())))
    );
    let mut twice = log();
    twice.push(Entry {
        moves: Vec::new(),
        ..twice[0].clone()
    });
    assert_eq!(check(&honest(), &twice, 0), Err(Anomaly::Twice(id(1))));
    assert_eq!(check(&honest()[..3], &log(), 0), Err(Anomaly::FromNobody(id(3))));
}

/// An answer that came before the message was there for others.
#[test]
fn a_reader_that_does_not_see_what_was_acknowledged_is_found() {
    for (event, known) in [(Event::SawHead { seq: 0 }, 1), (saw(0, None), 1)] {
        let history = [at(0, 2, stored(1, 1)), at(3, 4, event)];
        let operation = Box::new(history[1].clone());
        assert_eq!(check(&history, &log(), 3), Err(Anomaly::WentBack { operation, known }));
    }
}

#[test]
fn a_log_that_goes_back_is_found() {
    let ahead = [at(0, 1, Event::SawHead { seq: 3 }), at(2, 3, Event::SawHead { seq: 2 })];
    assert!(matches!(
        check(&ahead, &log(), 3),
        Err(Anomaly::WentBack { known: 3, .. })
    ));
    // A message takes a place that had been seen before it was posted.
    let early = [at(0, 1, Event::SawHead { seq: 3 }), at(2, 3, stored(3, 3))];
    assert!(matches!(
        check(&early, &log(), 3),
        Err(Anomaly::WentBack { known: 3, .. })
    ));
    // Two that did not overlap, the wrong way around.
    let around = [at(0, 1, stored(2, 2)), at(2, 3, stored(1, 1))];
    assert!(matches!(
        check(&around, &log(), 3),
        Err(Anomaly::WentBack { known: 2, .. })
    ));
    let beyond = [at(0, 1, Event::SawHead { seq: 4 })];
    assert!(matches!(check(&beyond, &log(), 3), Err(Anomaly::WentBack { .. })));
}

#[test]
fn refs_that_never_were_are_found() {
    for event in [saw(2, Some('1')), saw(2, Some('9')), saw(2, None), saw(9, Some('3'))] {
        let history = [at(0, 1, event)];
        assert_eq!(
            check(&history, &log(), 3),
            Err(Anomaly::WrongRefs(Box::new(history[0].clone())))
        );
    }
}

#[test]
fn a_refusal_without_a_reason_is_found() {
    let reasons = [
        // It was where it was expected all the time.
        vec![
            at(0, 1, stored(1, 1)),
            at(2, 3, refused(Some('1'), Some('1'))),
            at(4, 5, stored(2, 2)),
        ],
        // It was there before, and not any more.
        vec![at(0, 1, stored(2, 2)), at(2, 3, refused(Some('2'), Some('1')))],
        // It was there later.
        vec![at(2, 3, refused(Some('1'), Some('3'))), at(4, 5, stored(2, 2))],
        // It was never there.
        vec![at(0, 9, refused(Some('1'), Some('9')))],
    ];
    for history in reasons {
        let found = check(&history, &log(), 3);
        assert!(matches!(found, Err(Anomaly::RefusedWithoutReason(_))), "{found:?}");
    }
    // Where the place is not told, another one is reason enough.
    let told = |expected| Event::Refused {
        name: main(),
        expected: Some(oid(expected)),
        actual: None,
    };
    assert_eq!(check(&[at(0, 9, told('1'))], &log(), 3), Ok(()));
    let history = [at(0, 1, stored(3, 3)), at(2, 3, told('3'))];
    assert!(matches!(
        check(&history, &log(), 3),
        Err(Anomaly::RefusedWithoutReason(_))
    ));
}
