"""What a command imports and reads before its first round. The process from which ``processes.py`` forks commands
imports this module: the code of this package is parsed for its digest, and the kept runs are listed, once for all of
them. No test changes either in place."""

from robustfl_bench.commands import bench, ring
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.runner.store import kept

__all__ = ["bench", "ring"]

_planned = plan(compose.resolve([]).config)
_ = _planned.code
kept.find(_planned.run_id)
