-- Format 5: services and their jobs.

-- Whether the agent may work on the jobs of the service whose room this is. Whoever asks for a job is a member without it.
ALTER TABLE members ADD COLUMN serves INTEGER NOT NULL DEFAULT 0 CHECK (serves IN (0, 1));

-- Jobs of services: what is not in the log of them. `attempts` counts leases that ended without a word and that somebody has
-- noticed, `fence` is the number of the last claim, which grows over all jobs of a room (0: there was none), `owner` whose it was,
-- and `claim` names the request that made it (NULL: it was given back). `lease_until` stays where a lease ended by itself.
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
-- What is still to be done, and what was given up or may be by now, in pages: a room has had many that have ended.
CREATE INDEX jobs_open ON jobs (room, seq) WHERE state IN ('waiting', 'claimed');
CREATE INDEX jobs_dead ON jobs (room, seq) WHERE state IN ('claimed', 'dead');
