"""HTTP itself: connections, requests and answers."""
