"""A run's rounds: the federation (clients, data, model), one round, the loop over rounds, the metrics that it
records, and stacks of runs that train together. It names no rule and writes no file."""
