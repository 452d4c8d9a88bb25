//! The tables of the record and of a reader's cursors, as text.
//!
//! A context copies the text it needs into a migration of its own and says in a test that the two are the same. A
//! landed text never changes: a change is a new constant, and a new migration in every context.
//! Called by: the contexts' tests, and the tests of this crate.

/// In an owner's store: its record. The trigger keeps a slip of the hand from rewriting what happened.
pub const RECORD_1: &str = "\
CREATE TABLE record (
    position bigint PRIMARY KEY CHECK (position > 0),
    at timestamptz NOT NULL,
    kind text NOT NULL,
    event jsonb NOT NULL
);

CREATE FUNCTION refuse_to_rewrite_the_record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the record is append-only: % is refused', TG_OP;
END
$$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON record
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_record();
";

/// In a reader's store: how far it has read each owner's record.
pub const CURSORS_1: &str = "\
CREATE TABLE cursors (
    owner text PRIMARY KEY,
    position bigint NOT NULL CHECK (position >= 0),
    moved_at timestamptz NOT NULL DEFAULT now()
);
";
