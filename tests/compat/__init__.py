"""The compatible APIs: examples of other queues, word for word, against our server."""
