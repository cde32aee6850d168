-- Format 3: content that is no longer kept.

-- When the content was given up, milliseconds since 1970. `body` is then what stands in its place: the number, the room,
-- and the SHA-256 of what was there, which the chain was made with.
ALTER TABLE messages ADD COLUMN dropped_at INTEGER;
-- Up to here the log has been looked through for what is too old.
ALTER TABLE rooms ADD COLUMN swept_seq INTEGER NOT NULL DEFAULT 0 CHECK (swept_seq >= 0);

-- Blobs that a room held and that are no longer kept for it.
CREATE TABLE dropped_blobs (
    room       INTEGER NOT NULL REFERENCES rooms,
    id         BLOB NOT NULL CHECK (length(id) = 32),
    dropped_at INTEGER NOT NULL,
    PRIMARY KEY (room, id)
) STRICT, WITHOUT ROWID;

-- Whether another room holds a blob.
CREATE INDEX room_blobs_by_blob ON room_blobs (blob);

-- A member was sent all bytes of a blob of the room.
CREATE TABLE fetches (
    room  INTEGER NOT NULL REFERENCES rooms ON DELETE CASCADE,
    blob  INTEGER NOT NULL REFERENCES blobs ON DELETE CASCADE,
    agent INTEGER NOT NULL REFERENCES agents,
    at    INTEGER NOT NULL,
    PRIMARY KEY (room, blob, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX fetches_by_blob ON fetches (blob);

-- The two agents of a direct room, also of one that a member has left.
CREATE TABLE dms (
    room   INTEGER PRIMARY KEY REFERENCES rooms ON DELETE CASCADE,
    first  INTEGER NOT NULL REFERENCES agents,
    second INTEGER NOT NULL REFERENCES agents
) STRICT;
