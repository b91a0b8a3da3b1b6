"""Robust rules over the processes of a ``torch.distributed`` group, in place of ``all_reduce``.

Each process is a client. Each gets a part of the columns of all updates, so memory and traffic per process are those of
an ordinary all-reduce: d numbers, sent twice. Importing this room imports PyTorch.
"""

from robustfl_bench.doors.distributed.all_reduce import RobustAllReduce as RobustAllReduce
from robustfl_bench.doors.distributed.all_reduce import robust_all_reduce as robust_all_reduce
from robustfl_bench.doors.distributed.all_reduce import robust_hook as robust_hook
