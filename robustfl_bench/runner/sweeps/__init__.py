"""Sweeps that survive failures: any number of processes, on one host or on many that share a folder, make the runs of a
sweep.

``cells``     a sweep is a list of cells; composing one, and those whose runs are trained together
``take``      the loop of one process over all cells: answers what is stored, runs what is free, waits for the rest
``workers``   processes that take cells, on this machine, replaced when they are killed, or started by a user's class
``clusters``  jobs of Slurm and tasks of Ray that take cells
``progress``  how far a sweep has come, read from its run folders alone, and what one would do
``launch``    Hydra, which reads the command line of a sweep and starts its sweeper and its launcher; from there to a
              sweep and back

A launcher places processes and starts them again. Each calls ``take.take(sweep)`` with a ``cells.Sweep``, which can be
pickled; in a new process ``sweep.enter()`` comes first. The lease of a run folder (``store.lease``) decides who runs
it, and nothing else.
"""
