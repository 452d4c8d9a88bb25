-- The machines of the mesh. Positions are objects of epoch, generation and sequence, as a node states them; moments are
-- milliseconds since 1970-01-01 UTC.
CREATE TABLE nodes (
    name text PRIMARY KEY,
    labels jsonb NOT NULL DEFAULT '{}',
    joined boolean NOT NULL DEFAULT false,
    state text NOT NULL DEFAULT 'joining' CHECK (state IN ('joining', 'connected', 'quiet', 'unreachable')),
    last_heard_ms bigint,
    host_version text,
    facts jsonb,
    carried integer[] NOT NULL DEFAULT '{}',
    accepted jsonb,
    -- The number of the newest report, and what it said.
    report_count bigint,
    reported jsonb,
    applied text[] NOT NULL DEFAULT '{}',
    failed jsonb NOT NULL DEFAULT '{}',
    refused text NOT NULL DEFAULT '',
    -- The highest number of drift that was counted, and by its number what is not yet repaired of it.
    drift_count bigint NOT NULL DEFAULT 0,
    drift_open jsonb NOT NULL DEFAULT '{}',
    -- Rises with every decision about what is to be on the node.
    revision bigint NOT NULL DEFAULT 0
);

-- What a module is, by content. Never changed and never deleted. The manifest is JSON kept as text: what a file holds may
-- hold the one character that jsonb refuses.
CREATE TABLE versions (
    digest text PRIMARY KEY,
    module text NOT NULL,
    version text NOT NULL,
    manifest text NOT NULL,
    kept_ms bigint NOT NULL
);

-- Which content of a module is in force; one that is leaving stays until its nodes reported that it is gone.
CREATE TABLE modules (
    name text PRIMARY KEY,
    digest text NOT NULL REFERENCES versions,
    leaving boolean NOT NULL DEFAULT false
);

-- Which module is on which node, since which of the node's revisions, and the declaration that carries that decision.
CREATE TABLE assignments (
    module text NOT NULL REFERENCES modules ON DELETE CASCADE,
    node text NOT NULL REFERENCES nodes ON DELETE CASCADE,
    leaving boolean NOT NULL DEFAULT false,
    revision bigint NOT NULL,
    declared jsonb,
    PRIMARY KEY (module, node)
);

CREATE INDEX assignments_by_node ON assignments (node);
