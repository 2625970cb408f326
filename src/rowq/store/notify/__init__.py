"""How processes wake each other: by hints, which may be late, duplicated or lost."""
