"""Clients with the interface and the guarantees of other queues."""
