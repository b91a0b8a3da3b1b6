"""Sweeps that survive failures: any number of processes, on one host or on many that share a folder, make the runs of a
sweep.

A launcher places processes and starts them again. Each calls ``take.take(sweep)`` with a ``cells.Sweep``, which can be
pickled; in a new process ``sweep.enter()`` comes first. The lease of a run folder (``store.lease``) decides who runs
it, and nothing else.
"""
