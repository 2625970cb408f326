"""Redis beside the database: hints between processes, and settings that another process has read."""
