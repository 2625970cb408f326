"""How a call runs: verbs become calls, calls that arrive together become one transaction."""
