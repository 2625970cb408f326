"""The rules: pure values and functions. No SQL, no clock, no web."""
