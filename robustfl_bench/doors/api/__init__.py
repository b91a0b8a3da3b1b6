"""The Python interface: runs and sweeps as functions, with parts given as objects, and their results and pictures."""
