"""The API of queue-ti."""
