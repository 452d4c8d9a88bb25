-- Moments are milliseconds since 1970-01-01 UTC; keys are the base64 of their bytes.

-- The machines that joined: their public keys, and the broker account each has. The password itself is kept nowhere: only
-- as the broker keeps it, so that the account can be made anew, and sealed to the node, so that the reply can be repeated.
CREATE TABLE nodes (
    name text PRIMARY KEY,
    identity_key text NOT NULL UNIQUE,
    sealing_key text NOT NULL,
    tunnel_key text NOT NULL,
    labels jsonb NOT NULL,
    joined_ms bigint NOT NULL,
    password_hash text NOT NULL,
    password_sealed text NOT NULL
);

-- The generation of each name, kept when the node goes: what a later node of the name is told stands above.
CREATE TABLE histories (
    node text PRIMARY KEY,
    generation bigint NOT NULL CHECK (generation > 0)
);

-- Join tokens. Of the secret only what is derived from it is kept, and no longer than it can be used.
CREATE TABLE tokens (
    id text PRIMARY KEY,
    node text NOT NULL,
    labels jsonb NOT NULL,
    expires_ms bigint NOT NULL,
    mac_key bytea,
    broker_password text,
    used_by text,
    ended boolean NOT NULL DEFAULT false,
    CHECK ((mac_key IS NULL) = ended AND (broker_password IS NULL) = ended)
);

CREATE INDEX tokens_by_node ON tokens (node) WHERE NOT ended;

-- What was signed, the newest few of each node.
CREATE TABLE declarations (
    node text NOT NULL REFERENCES nodes ON DELETE CASCADE,
    epoch bigint NOT NULL,
    generation bigint NOT NULL,
    sequence bigint NOT NULL,
    stage text NOT NULL CHECK (stage IN ('foundation', 'rest')),
    content text NOT NULL,
    issued_ms bigint NOT NULL,
    not_after_ms bigint NOT NULL,
    bytes bytea NOT NULL,
    signature bytea NOT NULL,
    PRIMARY KEY (node, epoch, generation, sequence)
);

-- Tokens of administrators, by their SHA-256.
CREATE TABLE administrators (
    name text PRIMARY KEY,
    token_sha256 bytea NOT NULL UNIQUE
);
