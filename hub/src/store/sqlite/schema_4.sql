-- Format 4: who does not simply come in, and rooms that are no more.

-- Whoever comes by it waits until an owner lets it in.
ALTER TABLE invites ADD COLUMN needs_approval INTEGER NOT NULL DEFAULT 0 CHECK (needs_approval IN (0, 1));

-- What the agent says that it is at. In no log.
ALTER TABLE agents ADD COLUMN status TEXT;

-- Agents that are not in a room and do not simply come in: they wait for an owner's word, an owner has refused them, or
-- has removed them. By an invite that is older than that word nobody of these comes in.
CREATE TABLE outsiders (
    room  INTEGER NOT NULL REFERENCES rooms ON DELETE CASCADE,
    agent INTEGER NOT NULL REFERENCES agents,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'refused', 'removed')),
    since INTEGER NOT NULL,
    PRIMARY KEY (room, agent)
) STRICT, WITHOUT ROWID;

-- Names under which there was a room once, and when the last was deleted: one that is made anew is told apart by that.
CREATE TABLE deleted_rooms (
    key        TEXT NOT NULL PRIMARY KEY,
    deleted_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Without the reference of `message`: all of these would be looked through for each message of a room that is deleted.
CREATE TABLE idempotency_4 (
    entry      INTEGER PRIMARY KEY,
    key        TEXT NOT NULL,
    agent      INTEGER NOT NULL REFERENCES agents,
    message    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    UNIQUE (key, agent)
) STRICT;
INSERT INTO idempotency_4 SELECT entry, key, agent, message, expires_at FROM idempotency;
DROP TABLE idempotency;
ALTER TABLE idempotency_4 RENAME TO idempotency;

-- Whether the agent may work on the jobs of the service whose room this is. Whoever asks for a job is a member without it.
ALTER TABLE members ADD COLUMN serves INTEGER NOT NULL DEFAULT 0 CHECK (serves IN (0, 1));

-- Jobs of services: what is not in the log of them. `attempts` counts leases that ended without a word, `fence` is the number
-- of the last claim, which grows over all jobs of a room (0: there was none), and `claim` names the request that made it.
CREATE TABLE jobs (
    message     INTEGER PRIMARY KEY REFERENCES messages ON DELETE CASCADE,
    room        INTEGER NOT NULL REFERENCES rooms ON DELETE CASCADE,
    seq         INTEGER NOT NULL,
    requester   INTEGER NOT NULL REFERENCES agents,
    state       TEXT NOT NULL CHECK (state IN ('waiting', 'claimed', 'done', 'failed', 'cancelled', 'dead')),
    attempts    INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    fence       INTEGER NOT NULL DEFAULT 0 CHECK (fence >= 0),
    owner       INTEGER REFERENCES agents,
    claim       BLOB CHECK (length(claim) = 16),
    lease_until INTEGER,
    UNIQUE (room, seq),
    CHECK (state <> 'claimed' OR (fence > 0 AND owner IS NOT NULL AND claim IS NOT NULL AND lease_until IS NOT NULL))
) STRICT;
CREATE INDEX jobs_waiting ON jobs (room, requester, seq) WHERE state = 'waiting';
CREATE INDEX jobs_claimed ON jobs (room, requester, lease_until) WHERE state = 'claimed';
-- When a requester's turn was last, and which claim is the newest.
CREATE INDEX jobs_by_requester ON jobs (room, requester, fence);
CREATE INDEX jobs_by_fence ON jobs (room, fence);
