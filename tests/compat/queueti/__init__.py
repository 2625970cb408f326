"""The door of queue-ti: its examples, its promises, and what it does with what nobody should send."""
