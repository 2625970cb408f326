"""PostgreSQL: its dialect, sessions, connections and doctor."""
