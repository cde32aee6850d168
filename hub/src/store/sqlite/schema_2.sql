-- Format 2: tokens for CI.

-- The row in `agents` is the author that messages and idempotency keys of the token belong to, whichever key a job has.
-- Its id is a public key whose other half was thrown away, so nobody opens a session with it.
CREATE TABLE tokens (
    agent      INTEGER PRIMARY KEY REFERENCES agents,
    key        TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    hash       BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    created_by INTEGER NOT NULL REFERENCES agents,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;
CREATE INDEX tokens_by_maker ON tokens (created_by);

CREATE TABLE token_rooms (
    agent     INTEGER NOT NULL REFERENCES tokens ON DELETE CASCADE,
    room      INTEGER NOT NULL REFERENCES rooms ON DELETE CASCADE,
    can_post  INTEGER NOT NULL CHECK (can_post IN (0, 1)),
    can_read  INTEGER NOT NULL CHECK (can_read IN (0, 1)),
    can_claim INTEGER NOT NULL CHECK (can_claim IN (0, 1)),
    PRIMARY KEY (agent, room)
) STRICT, WITHOUT ROWID;
CREATE INDEX token_rooms_by_room ON token_rooms (room);

-- A token ends for a room with its maker's membership, and stays so when the maker comes back: whoever holds it may
-- have been the reason.
CREATE TRIGGER token_rooms_end AFTER DELETE ON members BEGIN
    DELETE FROM token_rooms WHERE room = OLD.room AND agent IN (SELECT agent FROM tokens WHERE created_by = OLD.agent);
END;
