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
