"""MariaDB and MySQL: the dialect, sessions, connections and doctor."""
