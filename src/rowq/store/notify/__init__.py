"""How processes wake each other: hints, which may be late, doubled or lost."""
