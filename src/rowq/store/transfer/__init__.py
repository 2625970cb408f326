"""The rows that a copy moves from one database to another."""
