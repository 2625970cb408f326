"""The admin pages: what the API can tell and do, for people with a browser."""
