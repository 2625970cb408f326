"""Deliberate defects, one line each: the tests must notice every one."""
