"""The command line: the verbs of the broker, for people and for scripts."""
