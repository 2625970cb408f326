"""What applications hold of a transaction, each behind the same few methods: drivers, SQLAlchemy, Django."""
