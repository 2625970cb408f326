"""The doors: wire formats of other queues in front of the same verbs, each in a file of its own."""
