"""What is stored: run folders, checkpoints, claims, and the kept runs of this package."""
