//! Tokens that CI jobs get for an identity token: several at once of one account, which a rule of the operator's names.
//! What the identity token says was judged before; here it is taken once only.

use std::collections::BTreeSet;

use parler_protocol::api::{TokenJob, TokenSummary};
use rusqlite::{Connection, OptionalExtension, Row};

use super::batch::Batch;
use super::failure::Failure;
use super::{agents, rooms, tokens};
use crate::store::{JobToken, StoreError, TokenHash, TokenHolder};

/// How long a token's job is told of after its end, milliseconds.
const REMEMBERED_MS: i64 = 24 * 3600 * 1000; // a day
/// Most jobs that are told of a token.
const TOLD_JOBS: u32 = 20;

/// Takes an identity token, once, and makes a token for its job.
pub(super) fn exchange(batch: &mut Batch<'_>, job: &JobToken) -> Result<TokenSummary, Failure> {
    let (connection, token) = (batch.connection, &job.token);
    forget(connection, token.now)?;
    take(connection, job)?;

    let maker = agents::find(connection, &token.by)?.ok_or(StoreError::NotAdmitted)?;
    let mut granted = BTreeSet::new();
    let mut is_asked_for = job.room.is_none();
    for room in &token.rooms {
        match rooms::of_member(connection, room, &token.by) {
            Ok((row, _)) => {
                is_asked_for |= job.room.as_ref().is_some_and(|asked| asked.key() == room.key());
                granted.insert(row.row);
            }
            // A room that the rule's owner is not in, or no longer, is none of the token's.
            Err(Failure::Refused(
                StoreError::NotFound | StoreError::ApprovalPending(_) | StoreError::ApprovalRefused(_),
            )) => {}
            Err(error) => return Err(error),
        }
    }
    if granted.is_empty() || !is_asked_for {
        return Err(StoreError::NotFound.into());
    }

    let agent = tokens::account_of_jobs(connection, token, maker, &granted)?;
    let claims = serde_json::to_string(&job.claims).map_err(|_| Failure::damaged("claims"))?;
    connection
        .prepare_cached(
            "INSERT INTO job_tokens (hash, agent, issuer, claims, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((token.hash, agent, &job.issuer, claims, token.now, token.expires_at))?;
    let made = find(connection, &token.hash)?.ok_or_else(|| Failure::damaged("a token"))?;
    Ok(made.summary)
}

/// Takes the identity token, unless it was taken before. How many are remembered is bounded: each is young.
fn take(connection: &Connection, job: &JobToken) -> Result<(), Failure> {
    let mut count = connection.prepare_cached("SELECT count(*) FROM seen_identities")?;
    let known: u32 = count.query_row((), |row| row.get(0))?;
    let taken = connection
        .prepare_cached("INSERT INTO seen_identities (hash, ends) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute((job.identity, job.identity_ends))?;
    match taken {
        0 => Err(StoreError::IdentityTaken.into()),
        _ if known >= job.most_identities => Err(StoreError::TooManyIdentities.into()),
        _ => Ok(()),
    }
}

fn forget(connection: &Connection, now: i64) -> Result<(), Failure> {
    connection
        .prepare_cached("DELETE FROM seen_identities WHERE ends <= ?1")?
        .execute([now])?;
    connection
        .prepare_cached("DELETE FROM job_tokens WHERE expires_at <= ?1")?
        .execute([now.saturating_sub(REMEMBERED_MS)])?;
    Ok(())
}

/// Ends all of an account's: its grants are no longer what they were given for.
pub(super) fn end_all(connection: &Connection, agent: i64) -> Result<(), Failure> {
    connection
        .prepare_cached("DELETE FROM job_tokens WHERE agent = ?1")?
        .execute([agent])?;
    Ok(())
}

/// Whose token this is.
pub(super) fn find(connection: &Connection, hash: &TokenHash) -> Result<Option<TokenHolder>, Failure> {
    let mut select = connection
        .prepare_cached("SELECT agent, issuer, claims, created_at, expires_at FROM job_tokens WHERE hash = ?1")?;
    let found = select
        .query_row([hash], |row| Ok((row.get::<_, i64>(0)?, job_of(row, 1)?)))
        .optional()?;
    let Some((agent, job)) = found else {
        return Ok(None);
    };
    let mut holder = tokens::of_account(connection, agent)?;
    holder.hash = *hash;
    let summary = &mut holder.summary;
    (summary.created_at, summary.expires_at) = (job.created_at, job.expires_at);
    summary.jobs = vec![job];
    Ok(Some(holder))
}

/// The jobs that got a token of this account lately, the newest first.
pub(super) fn list(connection: &Connection, agent: i64) -> Result<Vec<TokenJob>, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT issuer, claims, created_at, expires_at FROM job_tokens WHERE agent = ?1
         ORDER BY created_at DESC, hash LIMIT ?2",
    )?;
    let jobs = select.query_map((agent, TOLD_JOBS), |row| job_of(row, 0))?;
    Ok(jobs.collect::<rusqlite::Result<_>>()?)
}

fn job_of(row: &Row<'_>, first: usize) -> rusqlite::Result<TokenJob> {
    let claims: String = row.get(first + 1)?;
    Ok(TokenJob {
        issuer: row.get(first)?,
        // Only told to people: what cannot be read is none.
        claims: serde_json::from_str(&claims).unwrap_or_default(),
        created_at: row.get(first + 2)?,
        expires_at: row.get(first + 3)?,
    })
}
