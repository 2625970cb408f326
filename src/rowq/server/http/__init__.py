"""HTTP itself: connections, requests in, answers out."""
