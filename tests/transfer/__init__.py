"""Queues that move from one database into another: on every pair of databases, cut off at any point, with others at work."""
