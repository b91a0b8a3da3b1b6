"""Measurements inside a round, for figures whose numbers no run records."""
