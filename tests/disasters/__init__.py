"""Servers that restart, crash, vanish, refuse or fill up in the middle of the work: a clear error or a recovery, and nothing lost."""
