"""Clients with the interface and the promises of other queues."""
