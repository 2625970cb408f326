"""Ten million messages through one server: whether anything grows, or slows down."""
