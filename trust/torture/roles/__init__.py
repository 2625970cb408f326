"""What a thread of a participant does over and over, until it is told to end."""
