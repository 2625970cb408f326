"""The admin pages, as an operator has them: in a real browser."""
