-- Format 6: tokens that CI jobs get for an identity token.

-- Tokens beside the one whose hash `tokens` has: one for each job that showed who it is, all of the account that a rule of the
-- operator's names. The hash in `tokens` is that of nothing then. `claims` is what was signed of the job: a JSON object of strings.
CREATE TABLE job_tokens (
    hash       BLOB PRIMARY KEY CHECK (length(hash) = 32),
    agent      INTEGER NOT NULL REFERENCES tokens ON DELETE CASCADE,
    issuer     TEXT NOT NULL,
    claims     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX job_tokens_by_agent ON job_tokens (agent, created_at);
CREATE INDEX job_tokens_by_end ON job_tokens (expires_at);

-- Identity tokens that were exchanged: SHA-256 of issuer and `jti`, until the token is refused for its age.
CREATE TABLE seen_identities (
    hash BLOB PRIMARY KEY CHECK (length(hash) = 32),
    ends INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX seen_identities_by_end ON seen_identities (ends);
