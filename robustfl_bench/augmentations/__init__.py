"""Augmentations of the clients' training samples, one idea per file."""
