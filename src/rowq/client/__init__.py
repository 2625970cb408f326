"""The remote client: the verbs of a broker, asked of a server over HTTP."""
