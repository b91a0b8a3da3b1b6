"""Clustering: several models trained at once, each by the clients it suits; one idea per file."""
