"""The documents are true: their programs run, their links lead somewhere, their lists are complete."""
