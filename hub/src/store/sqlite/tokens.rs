//! Tokens, by the hash of their secret, and what each may do where. A token is in no room: it may do in one what its
//! grant says for as long as its maker is a member there.

use std::collections::BTreeSet;

use parler_protocol::api::{TokenGrant, TokenSummary};
use parler_protocol::{AgentId, RoomName, TokenName, TokenScope};
use rusqlite::{Connection, OptionalExtension, Row, ToSql};

use super::batch::Batch;
use super::failure::Failure;
use super::{agent_id, agents, job_tokens, jobs, parsed, rooms};
use crate::store::{Need, NewToken, StoreError, TokenHash, TokenHolder};

const COLUMNS: &str =
    "SELECT t.agent, a.id, t.name, maker.name, t.created_at, t.expires_at, t.revoked_at, a.last_seen, t.hash
     FROM tokens t JOIN agents a ON a.agent = t.agent JOIN agents maker ON maker.agent = t.created_by";

/// A token of that name as its row has it.
struct Existing {
    agent: i64,
    created_by: i64,
    ended: bool,
    revoked: bool,
    /// Whether it is of jobs that showed an identity token, one of which may still use its own.
    of_jobs: bool,
}

/// Makes a token, or makes one of the maker's that has ended anew.
pub(super) fn create(batch: &mut Batch<'_>, token: &NewToken) -> Result<TokenSummary, Failure> {
    let connection = batch.connection;
    let maker = agents::find(connection, &token.by)?.ok_or(StoreError::NotAdmitted)?;
    let mut granted = BTreeSet::new();
    for room in &token.rooms {
        granted.insert(rooms::of_member(connection, room, &token.by)?.0.row);
    }
    let agent = match named(connection, &token.name, token.now)? {
        // A name stays its first maker's: nobody else's messages come to be from `ci/NAME`.
        Some(existing) if existing.created_by != maker || !existing.ended => {
            return Err(StoreError::TokenExists(token.name.clone()).into());
        }
        Some(existing) => {
            connection
                .prepare_cached(
                    "UPDATE tokens SET name = ?2, hash = ?3, created_at = ?4, expires_at = ?5, revoked_at = NULL
                     WHERE agent = ?1",
                )?
                .execute((
                    existing.agent,
                    token.name.as_str(),
                    token.hash,
                    token.now,
                    token.expires_at,
                ))?;
            job_tokens::end_all(connection, existing.agent)?;
            existing.agent
        }
        None => insert(connection, token, &token.hash, maker)?,
    };
    grant(connection, agent, token, &granted)?;
    let made = one(connection, "t.agent = ?1", [&agent])?.ok_or_else(|| Failure::damaged("a token"))?;
    Ok(summary(connection, made, None)?.summary)
}

/// The account of a rule's jobs, made, or as it was left by those before: what it may do is what the rule says now, and
/// where that was something else their tokens end. Several of them may have one at once.
pub(super) fn account_of_jobs(
    connection: &Connection,
    token: &NewToken,
    maker: i64,
    granted: &BTreeSet<i64>,
) -> Result<i64, Failure> {
    // No token hashes to it: nobody knows what does.
    let hash = token.account.as_bytes();
    let Some(existing) = named(connection, &token.name, token.now)? else {
        let agent = insert(connection, token, hash, maker)?;
        grant(connection, agent, token, granted)?;
        return Ok(agent);
    };
    if existing.created_by != maker || !(existing.ended || existing.of_jobs) {
        return Err(StoreError::TokenExists(token.name.clone()).into());
    }
    let agent = existing.agent;
    let is_other = existing.revoked || grants(connection, agent)? != wanted(token, granted);
    if is_other {
        job_tokens::end_all(connection, agent)?;
        grant(connection, agent, token, granted)?;
    }
    connection
        .prepare_cached(
            "UPDATE tokens SET name = ?2, hash = ?3, created_at = iif(?6, created_at, ?4),
                 expires_at = max(iif(?6, expires_at, 0), ?5), revoked_at = NULL
             WHERE agent = ?1",
        )?
        .execute((
            agent,
            token.name.as_str(),
            hash,
            token.now,
            token.expires_at,
            !(existing.ended || is_other),
        ))?;
    Ok(agent)
}

/// The token of an account, without what is each job's.
pub(super) fn of_account(connection: &Connection, agent: i64) -> Result<TokenHolder, Failure> {
    let found = one(connection, "t.agent = ?1", [&agent])?.ok_or_else(|| Failure::damaged("a token"))?;
    summary(connection, found, None)
}

fn wanted(token: &NewToken, granted: &BTreeSet<i64>) -> Vec<(i64, Vec<TokenScope>)> {
    let can: Vec<_> = TokenScope::ALL
        .into_iter()
        .filter(|scope| token.can.contains(scope))
        .collect();
    granted.iter().map(|room| (*room, can.clone())).collect()
}

fn grants(connection: &Connection, agent: i64) -> Result<Vec<(i64, Vec<TokenScope>)>, Failure> {
    let mut select = connection
        .prepare_cached("SELECT room, can_post, can_read, can_claim FROM token_rooms WHERE agent = ?1 ORDER BY room")?;
    let rows = select.query_map([agent], |row| Ok((row.get(0)?, scopes(row, 1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Grants this, and nothing else any more.
fn grant(connection: &Connection, agent: i64, token: &NewToken, granted: &BTreeSet<i64>) -> Result<(), Failure> {
    connection
        .prepare_cached("DELETE FROM token_rooms WHERE agent = ?1")?
        .execute([agent])?;
    let can = |scope| token.can.contains(&scope);
    for room in granted {
        connection
            .prepare_cached(
                "INSERT INTO token_rooms (agent, room, can_post, can_read, can_claim) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((
                agent,
                room,
                can(TokenScope::Post),
                can(TokenScope::Read),
                can(TokenScope::Claim),
            ))?;
    }
    Ok(())
}

fn insert(connection: &Connection, token: &NewToken, hash: &TokenHash, maker: i64) -> Result<i64, Failure> {
    let agent: i64 = connection
        .prepare_cached("INSERT INTO agents (id, name, admitted_at, last_seen) VALUES (?1, ?2, ?3, 0) RETURNING agent")?
        .query_row(
            (token.account.as_bytes(), token.name.sender().as_str(), token.now),
            |row| row.get(0),
        )?;
    connection
        .prepare_cached(
            "INSERT INTO tokens (agent, key, name, hash, created_by, created_at, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute((
            agent,
            token.name.key(),
            token.name.as_str(),
            hash,
            maker,
            token.now,
            token.expires_at,
        ))?;
    Ok(agent)
}

fn named(connection: &Connection, name: &TokenName, now: i64) -> Result<Option<Existing>, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT t.agent, t.created_by, t.revoked_at IS NOT NULL OR t.expires_at <= ?2
             OR NOT EXISTS (SELECT 1 FROM token_rooms g WHERE g.agent = t.agent),
             t.revoked_at IS NOT NULL,
             EXISTS (SELECT 1 FROM job_tokens j WHERE j.agent = t.agent AND j.expires_at > ?2)
         FROM tokens t WHERE t.key = ?1",
    )?;
    let existing = |row: &Row<'_>| {
        Ok(Existing {
            agent: row.get(0)?,
            created_by: row.get(1)?,
            ended: row.get(2)?,
            revoked: row.get(3)?,
            of_jobs: row.get(4)?,
        })
    };
    Ok(select.query_row((name.key(), now), existing).optional()?)
}

/// Whose token this is. One that has ended is found, too: its holder is told so.
pub(super) fn find(connection: &Connection, hash: &TokenHash) -> Result<Option<TokenHolder>, Failure> {
    match one(connection, "t.hash = ?1", [hash])? {
        Some(found) => summary(connection, found, None).map(Some),
        None => job_tokens::find(connection, hash),
    }
}

/// The tokens that the agent made, and those for rooms it owns, by name. Rooms it is not in are not told.
pub(super) fn list(connection: &Connection, agent: &AgentId) -> Result<Vec<TokenSummary>, Failure> {
    let Some(agent) = agents::find(connection, agent)? else {
        return Ok(Vec::new());
    };
    let mut select = connection.prepare_cached(&format!(
        "{COLUMNS} WHERE t.created_by = ?1 OR EXISTS ({OWNED}) ORDER BY t.key"
    ))?;
    let mut rows = select.query([agent])?;
    let mut tokens = Vec::new();
    while let Some(row) = rows.next()? {
        tokens.push(token(row)?);
    }
    tokens
        .into_iter()
        .map(|found| {
            let account = found.0;
            let mut told = summary(connection, found, Some(agent))?.summary;
            told.jobs = job_tokens::list(connection, account)?;
            Ok(told)
        })
        .collect()
}

/// A room of the token that agent ?1 owns.
const OWNED: &str = "SELECT 1 FROM token_rooms g JOIN members m ON m.room = g.room
     WHERE g.agent = t.agent AND m.agent = ?1 AND m.is_owner = 1";

/// Ends a token, for its maker and for the owners of its rooms. Ending it twice is ending it once.
pub(super) fn revoke(
    batch: &mut Batch<'_>,
    by: &AgentId,
    name: &TokenName,
    now: i64,
) -> Result<(TokenSummary, Vec<RoomName>), Failure> {
    let connection = batch.connection;
    let by = agents::find(connection, by)?.ok_or(StoreError::NotFound)?;
    let agent: Option<i64> = connection
        .prepare_cached(&format!(
            "SELECT t.agent FROM tokens t WHERE t.key = ?2 AND (t.created_by = ?1 OR EXISTS ({OWNED}))"
        ))?
        .query_row((by, name.key()), |row| row.get(0))
        .optional()?;
    let agent = agent.ok_or(StoreError::NotFound)?;
    connection
        .prepare_cached("UPDATE tokens SET revoked_at = ?2 WHERE agent = ?1 AND revoked_at IS NULL")?
        .execute((agent, now))?;
    jobs::forget_token(connection, agent, now)?;
    let mut select = connection
        .prepare_cached("SELECT r.name FROM token_rooms g JOIN rooms r ON r.room = g.room WHERE g.agent = ?1")?;
    let mut rows = select.query([agent])?;
    let mut of_token = Vec::new();
    while let Some(row) = rows.next()? {
        of_token.push(parsed(row, 0)?);
    }
    let found = one(connection, "t.agent = ?1", [&agent])?.ok_or_else(|| Failure::damaged("a token"))?;
    Ok((summary(connection, found, Some(by))?.summary, of_token))
}

/// Whether the agent whose row this is is a token that may do this in the room. When it ends is known to whoever let its
/// request in.
pub(super) fn may(connection: &Connection, room: i64, agent: i64, need: Need) -> Result<bool, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT g.can_post, g.can_read, g.can_claim
         FROM token_rooms g JOIN tokens t ON t.agent = g.agent
             JOIN members m ON m.room = g.room AND m.agent = t.created_by
         WHERE g.agent = ?1 AND g.room = ?2 AND t.revoked_at IS NULL",
    )?;
    let can = select.query_row((agent, room), |row| scopes(row, 0)).optional()?;
    Ok(can.is_some_and(|can| need.is_met_by(&can)))
}

/// Whether a token that the agent made has this account.
pub(super) fn is_made_by(connection: &Connection, account: i64, agent: i64) -> Result<bool, Failure> {
    let mut select = connection.prepare_cached("SELECT 1 FROM tokens WHERE agent = ?1 AND created_by = ?2")?;
    Ok(select.exists((account, agent))?)
}

/// Whether the agent whose row this is is a token's account.
pub(super) fn is_token(connection: &Connection, agent: i64) -> Result<bool, Failure> {
    let mut select = connection.prepare_cached("SELECT 1 FROM tokens WHERE agent = ?1")?;
    Ok(select.exists([agent])?)
}

/// Whether the maker of the token whose account this is may work on the jobs of the service whose room this is.
pub(super) fn maker_serves(connection: &Connection, room: i64, agent: i64) -> Result<bool, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT 1 FROM tokens t JOIN members m ON m.agent = t.created_by
         WHERE t.agent = ?1 AND m.room = ?2 AND m.serves = 1",
    )?;
    Ok(select.exists((agent, room))?)
}

fn scopes(row: &Row<'_>, first: usize) -> rusqlite::Result<Vec<TokenScope>> {
    let mut can = Vec::new();
    for (index, scope) in TokenScope::ALL.into_iter().enumerate() {
        if row.get(first + index)? {
            can.push(scope);
        }
    }
    Ok(can)
}

fn one<const N: usize, P: ToSql>(
    connection: &Connection,
    condition: &str,
    parameters: [P; N],
) -> Result<Option<(i64, TokenHolder)>, Failure> {
    let mut select = connection.prepare_cached(&format!("{COLUMNS} WHERE {condition}"))?;
    let mut rows = select.query(rusqlite::params_from_iter(parameters))?;
    rows.next()?.map(token).transpose()
}

fn token(row: &Row<'_>) -> Result<(i64, TokenHolder), Failure> {
    let (created_at, last_seen): (i64, i64) = (row.get(4)?, row.get(7)?);
    let summary = TokenSummary {
        name: parsed(row, 2)?,
        by: parsed(row, 3)?,
        rooms: Vec::new(),
        created_at,
        expires_at: row.get(5)?,
        last_used: (last_seen >= created_at).then_some(last_seen),
        revoked_at: row.get(6)?,
        jobs: Vec::new(),
    };
    let account = agent_id(row, 1)?;
    let hash = row.get(8)?;
    Ok((row.get(0)?, TokenHolder { account, hash, summary }))
}

/// Adds what the token may do where: in rooms its maker is in, and `viewer`, if there is one.
fn summary(
    connection: &Connection,
    (agent, mut holder): (i64, TokenHolder),
    viewer: Option<i64>,
) -> Result<TokenHolder, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT r.name, g.can_post, g.can_read, g.can_claim
         FROM token_rooms g JOIN tokens t ON t.agent = g.agent JOIN rooms r ON r.room = g.room
             JOIN members m ON m.room = g.room AND m.agent = t.created_by
         WHERE g.agent = ?1
             AND (?2 IS NULL OR EXISTS (SELECT 1 FROM members v WHERE v.room = g.room AND v.agent = ?2))
         ORDER BY r.key",
    )?;
    let mut rows = select.query((agent, viewer))?;
    while let Some(row) = rows.next()? {
        holder.summary.rooms.push(TokenGrant {
            room: parsed(row, 0)?,
            can: scopes(row, 1)?,
        });
    }
    Ok(holder)
}
