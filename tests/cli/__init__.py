"""The command line, as people and scripts use it."""
