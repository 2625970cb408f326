"""The API of queue-ti: its examples, its promises, and what it does with invalid input."""
