"""The SQL API: what a client of PEQ does, on a database of PostgreSQL, beside all other clients."""
