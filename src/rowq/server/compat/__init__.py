"""Compatible APIs: the wire formats of other queues on top of the same verbs, one package each."""
