"""The tools of trust/ are tried themselves: what they must notice is put before them."""
