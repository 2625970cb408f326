"""The HTTP server: its gate, its configuration, its routes, and how it starts and stops."""
