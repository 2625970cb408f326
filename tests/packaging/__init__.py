"""What is handed out: the wheel, the source archive, the image, the units, and what watches a server."""
