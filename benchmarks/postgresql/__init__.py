"""rowq on PostgreSQL, beside its peers there."""
