"""The server: the verbs over HTTP, with API keys, limits, logs and metrics. `rowq serve` runs it."""
