"""Several at once on one file: threads, coroutines, processes, and what is left when one of them is killed."""
