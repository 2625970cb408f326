"""How fast rowq is beside its peers and beside raw SQL, measured in one run: `make bench`."""
