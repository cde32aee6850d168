//! A database of each older format, whose hub dies at each statement by which it is brought to the newest: what it held is
//! there, in one format or another, and the next start brings it up to date.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use parler_hub::fail_point::FailPoint;
use rusqlite::Connection;

use super::stage::{copy, rows};

/// What SIGKILL is to a process.
const KILLED: Option<i32> = Some(9);

/// Opens the data as a hub does, finds nothing that is so old, and closes it.
fn open(data: &Path, fail_point: Option<(FailPoint, usize)>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parler-hub"));
    command
        .args(["prune", "--dry-run", "--messages", "9years", "--data"])
        .arg(data);
    command.env_clear();
    if let Some((point, nth)) = fail_point {
        command.env("PARLER_HUB_FAIL_POINT", format!("{point}:{nth}"));
    }
    command.output().unwrap()
}

/// The format, and each table and index with its columns.
fn form(data: &Path) -> (i64, BTreeSet<String>) {
    let database = Connection::open(data.join("hub.db")).unwrap();
    let format = database
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    let mut select = database
        .prepare(
            "SELECT s.type || ' ' || s.name || ' ' || coalesce(group_concat(c.name), '') FROM sqlite_schema s
             LEFT JOIN pragma_table_info(s.name) c GROUP BY s.name",
        )
        .unwrap();
    let rows = select.query_map((), |row| row.get(0)).unwrap();
    (format, rows.map(Result::unwrap).collect())
}

#[track_caller]
fn assert_sound(data: &Path) {
    let database = Connection::open(data.join("hub.db")).unwrap();
    let found: String = database
        .pragma_query_value(None, "integrity_check", |row| row.get(0))
        .unwrap();
    assert_eq!(found, "ok");
    let mut select = database.prepare("PRAGMA foreign_key_check").unwrap();
    assert!(!select.exists(()).unwrap(), "a row refers to none");
}

#[test]
fn data_of_each_older_format_outlives_a_death_at_any_statement() {
    let place = tempfile::TempDir::new().unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/data");
    let mut formats: Vec<i64> = fs::read_dir(&kept)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    formats.sort_unstable();
    let newest = formats.pop().unwrap();
    let forms: Vec<_> = (1..=newest)
        .map(|format| form(&kept.join(format.to_string())))
        .collect();
    for from in formats {
        let kept = kept.join(from.to_string());
        let before = rows(&kept);
        assert!(before.len() > 10, "{before:?}");
        for point in [
            FailPoint::MigrationStatement,
            FailPoint::MigrationApplied,
            FailPoint::MigrationStamped,
            FailPoint::MigrationCommitted,
        ] {
            let mut deaths = 0;
            loop {
                let what = format!("format {from}, {point}, time {}", deaths + 1);
                let data = place.path().join("data");
                copy(&kept, &data);
                let opened = open(&data, Some((point, deaths + 1)));
                if opened.status.success() {
                    break;
                }
                assert_eq!(opened.status.signal(), KILLED, "{what}: {opened:?}");
                deaths += 1;
                // Each step is whole or not at all. Looking at it brings the log into the database: at a copy.
                let looked_at = place.path().join("looked-at");
                copy(&data, &looked_at);
                let found = form(&looked_at);
                assert!(forms.contains(&found) && found.0 >= from, "{what}: {found:?}");
                assert!(before.is_subset(&rows(&looked_at)), "{what}");
                fs::remove_dir_all(&looked_at).unwrap();
                let opened = open(&data, None);
                assert!(opened.status.success(), "{what}: {opened:?}");
                assert_eq!(form(&data), forms[forms.len() - 1], "{what}");
                assert!(before.is_subset(&rows(&data)), "{what}");
                assert_sound(&data);
                fs::remove_dir_all(&data).unwrap();
            }
            fs::remove_dir_all(place.path().join("data")).unwrap();
            let steps = usize::try_from(newest - from).unwrap();
            if point == FailPoint::MigrationStatement {
                assert!(deaths > 2 * steps, "{deaths} statements in {steps} steps");
            } else {
                assert_eq!(deaths, steps, "{point}");
            }
        }
    }
}
