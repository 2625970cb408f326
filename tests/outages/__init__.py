"""Servers that are away, cut us off in a commit, or will not have us: what callers are told, how soon, and what is there afterwards."""
