"""Copies queues from one database into another, with all that belongs to them: in pieces, and on from where it was cut off."""
