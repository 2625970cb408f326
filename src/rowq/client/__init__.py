"""The remote client: the verbs of a broker, over HTTP."""
