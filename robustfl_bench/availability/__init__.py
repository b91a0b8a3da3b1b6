"""Availability: which clients of a round deliver, and how much of their local work they do; one idea per file."""
