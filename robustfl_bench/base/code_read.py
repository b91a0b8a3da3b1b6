"""Reads the code that every run executes, once imported, so that processes forked afterwards know it as it was then.

The digest of their runs is so that of the code which they have in common with the process that they are forked from,
also if files are edited before a worker is replaced.
"""

from robustfl_bench.base.code_digest import code_digest

code_digest({})
