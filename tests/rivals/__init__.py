"""Several at once on one database: threads, coroutines, processes, and what is left when one of them is killed."""
