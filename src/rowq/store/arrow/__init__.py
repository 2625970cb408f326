"""Tables as Arrow."""
