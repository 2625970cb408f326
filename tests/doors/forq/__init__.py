"""The door of Forq."""
