"""How a call runs: verbs become calls, and calls that arrive together share one transaction."""
