-- Format 1. docs/storage.md says what each table holds.

CREATE TABLE hub (
    only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
    id         BLOB NOT NULL CHECK (length(id) = 16),
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE agents (
    agent       INTEGER PRIMARY KEY,
    id          BLOB NOT NULL UNIQUE CHECK (length(id) = 32),
    name        TEXT NOT NULL,
    role        TEXT,
    admitted_at INTEGER NOT NULL,
    last_seen   INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
    token      BLOB NOT NULL PRIMARY KEY CHECK (length(token) = 32),
    agent      INTEGER NOT NULL REFERENCES agents,
    name       TEXT NOT NULL,
    role       TEXT,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

CREATE TABLE rooms (
    room          INTEGER PRIMARY KEY,
    key           TEXT NOT NULL UNIQUE,
    name          TEXT NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('channel', 'dm', 'service')),
    created_at    INTEGER NOT NULL,
    head_seq      INTEGER NOT NULL CHECK (head_seq >= 0),
    head_h        BLOB NOT NULL CHECK (length(head_h) = 32),
    head_ts       INTEGER NOT NULL,
    push_seq      INTEGER NOT NULL CHECK (push_seq <= head_seq),
    object_format TEXT CHECK (object_format IN ('sha1', 'sha256')),
    head_ref      TEXT
) STRICT;

CREATE TABLE members (
    member    INTEGER PRIMARY KEY,
    room      INTEGER NOT NULL REFERENCES rooms,
    agent     INTEGER NOT NULL REFERENCES agents,
    is_owner  INTEGER NOT NULL CHECK (is_owner IN (0, 1)),
    joined_at INTEGER NOT NULL,
    cursor    INTEGER NOT NULL CHECK (cursor >= 0),
    UNIQUE (room, agent)
) STRICT;
CREATE INDEX members_by_agent ON members (agent, room);

CREATE TABLE invites (
    code_hash  BLOB NOT NULL PRIMARY KEY CHECK (length(code_hash) = 32),
    room       INTEGER NOT NULL REFERENCES rooms,
    invited_by INTEGER NOT NULL REFERENCES agents,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    max_uses   INTEGER NOT NULL,
    uses       INTEGER NOT NULL CHECK (uses BETWEEN 0 AND max_uses)
) STRICT, WITHOUT ROWID;
CREATE INDEX invites_by_expiry ON invites (expires_at);

-- A rowid table: clustered by (room, seq) it would cost twice as much to write once there are many rooms.
CREATE TABLE messages (
    message INTEGER PRIMARY KEY,
    room    INTEGER NOT NULL REFERENCES rooms,
    seq     INTEGER NOT NULL CHECK (seq > 0),
    id      BLOB NOT NULL CHECK (length(id) = 16),
    agent   INTEGER NOT NULL REFERENCES agents,
    digest  BLOB NOT NULL CHECK (length(digest) = 32),
    h       BLOB NOT NULL CHECK (length(h) = 32),
    is_push INTEGER NOT NULL CHECK (is_push IN (0, 1)),
    body    BLOB NOT NULL,
    UNIQUE (room, seq),
    UNIQUE (id, room)
) STRICT;
CREATE INDEX messages_pushes ON messages (room, seq) WHERE is_push = 1;

-- `entry` grows with time, so that the oldest rows are found without an index of their own.
CREATE TABLE idempotency (
    entry      INTEGER PRIMARY KEY,
    key        TEXT NOT NULL,
    agent      INTEGER NOT NULL REFERENCES agents,
    message    INTEGER NOT NULL REFERENCES messages,
    expires_at INTEGER NOT NULL,
    UNIQUE (key, agent)
) STRICT;

CREATE TABLE refs (
    room INTEGER NOT NULL REFERENCES rooms,
    name TEXT NOT NULL,
    oid  BLOB NOT NULL CHECK (length(oid) IN (20, 32)),
    seq  INTEGER NOT NULL,
    PRIMARY KEY (room, name)
) STRICT, WITHOUT ROWID;

-- `bytes` is null where the blob is a file.
CREATE TABLE blobs (
    blob  INTEGER PRIMARY KEY,
    id    BLOB NOT NULL UNIQUE CHECK (length(id) = 32),
    size  INTEGER NOT NULL CHECK (size >= 0),
    bytes BLOB CHECK (bytes IS NULL OR length(bytes) = size)
) STRICT;

CREATE TABLE room_blobs (
    room INTEGER NOT NULL REFERENCES rooms,
    blob INTEGER NOT NULL REFERENCES blobs,
    seq  INTEGER NOT NULL,
    PRIMARY KEY (room, blob)
) STRICT, WITHOUT ROWID;
