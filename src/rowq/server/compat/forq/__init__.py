"""The API of Forq."""
