"""The SQL door: what a client of PEQ does, on a database of PostgreSQL, beside everybody else."""
