"""Producers that batch messages, and consumers that call a function for each: what most programs write around the verbs."""
