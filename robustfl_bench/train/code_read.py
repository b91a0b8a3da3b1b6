"""To import this module is to read the code that every run executes, for its digest.

The process from which workers are forked does so. Workers then record the code that it has imported and that they have
from it, even one that replaces another after files were edited.
"""

from robustfl_bench.train.code_digest import closure_of

closure_of({})
