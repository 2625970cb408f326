"""The HTTP server: its authentication, its configuration, its routes, and how it starts and stops."""
