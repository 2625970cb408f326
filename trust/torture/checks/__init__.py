"""What must be true of a run, a file each; all of them read from one place, the evidence."""
