"""What PostgreSQL and MariaDB have in common."""
