"""The pure rules, without a database."""
