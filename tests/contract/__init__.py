"""What the verbs promise, in verbs only: the same on every database and through every API."""
