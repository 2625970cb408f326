-- A schema for a door, where there is none.
CREATE SCHEMA {door};
