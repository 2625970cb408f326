"""Tables as Arrow, settled lines and publishing, on every database and without Spark."""
