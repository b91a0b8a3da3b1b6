"""What is stored: run folders, checkpoints, leases, and the kept runs of this package."""
