"""The API of plugin-keyval's queue."""
