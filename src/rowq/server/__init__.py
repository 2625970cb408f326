"""The server: the verbs over HTTP, with keys, limits, logs and metrics. `rowq serve` runs it."""
