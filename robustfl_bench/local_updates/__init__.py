"""Computations of a client between receiving a model and sending an update."""
