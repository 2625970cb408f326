"""How a participant reaches the queues: as a library, over HTTP, or in SQL transactions of its own."""
