"""The remote client: what it does when the way to the server is bad. What the verbs promise is in tests/contract, over HTTP too."""
