-- Why what was decided about a node could not be declared to it; empty where nothing is in the way.
ALTER TABLE nodes ADD COLUMN undeclared text NOT NULL DEFAULT '';
