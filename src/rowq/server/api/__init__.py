"""The HTTP API: its table of routes, the hot routes, and one module per resource for the rest."""
