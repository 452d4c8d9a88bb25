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
