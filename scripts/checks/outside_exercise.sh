#!/usr/bin/env bash
# A rule of one's own from nothing to a table and a picture, with the built wheel, outside the repository; timed.
#
#     scripts/checks/outside_exercise.sh FOLDER [SITE_PACKAGES]
#
# FOLDER is made anew. With SITE_PACKAGES, such as .venv/lib/python3.11/site-packages, the dependencies are taken from
# there; without it they are installed. PYTHON (python3) needs hatchling, to build the wheel.
set -euo pipefail

root="$(cd "$(dirname "$0")/../.." && pwd)"
python="${PYTHON:-python3}"
work="$1"
packages="${2:+$(cd "$2" && pwd)}"
unset PYTHONPATH
mkdir "$work"
work="$(cd "$work" && pwd)"

step() { printf '\n%4d s  %s\n' "$SECONDS" "$1"; }

step "build the wheel"
(cd "$root" && "$python" -c "import sys, hatchling.build as build; build.build_wheel(sys.argv[1])" "$work")

step "install it in an empty environment"
"$python" -m venv "$work/venv"
if [ -n "$packages" ]; then
  echo "$packages" > "$("$work/venv/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")/packages.pth"
  "$work/venv/bin/pip" install --quiet --no-deps "$work"/*.whl
else
  "$work/venv/bin/pip" install --quiet --constraint "$root/constraints.txt" "$work"/*.whl pytest
fi
PATH="$work/venv/bin:$PATH"
mkdir "$work/project"
cd "$work/project"

SECONDS=0
step "start from a template"
robustfl-bench new aggregator cosine_vote

step "write the rule"
cat > cosine_vote.py <<'RULE'
"""Cosine vote: updates that point where most others point."""

import math
from dataclasses import dataclass

import torch

from robustfl_bench import Aggregate, Aggregator, ConfigError, ServerView, Updates, check_fields


@dataclass(frozen=True)
class CosineVote(Aggregator):
    """The mean of the n - f updates with the largest median cosine to all, none longer than the median length."""

    exempt = {"translation": "directions and lengths are measured from zero"}

    num_byzantine: int

    def __post_init__(self) -> None:
        check_fields(self, num_byzantine=(0, math.inf))

    def check(self, n: int) -> None:
        if n <= 2 * self.num_byzantine:
            raise ConfigError(f"CosineVote needs n > 2f, got n={n}, f={self.num_byzantine}")

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        kept, lengths = updates.n - self.num_byzantine, updates.norms.clamp(min=1e-150)
        votes = (updates.gram / lengths / lengths[:, None]).median(dim=1).values
        shares = (updates.norms.median() / lengths).clamp(max=1)
        weights = torch.zeros_like(shares)
        chosen = votes.argsort(stable=True, descending=True)[:kept]
        weights[chosen] = shares[chosen] / kept
        return updates.combine(weights)
RULE

step "test it"
python -m pytest -q test_cosine_vote.py

step "run it and six other rules against three attacks and none, three seeds each"
robustfl-bench -m aggregator=cosine_vote:CosineVote,average,coomed,trmean,krum,geomed,centered_clipping \
  attack=none,ipm,lie,minmax seed=0,1,2 partition=dirichlet partition.alpha=0.5 \
  rounds=30 eval_every=5 model.hidden=[32] \
  > runs.txt
tail -n 1 runs.txt

step "show the table, and the differences to the rule with their intervals"
robustfl-results table
robustfl-results table --versus cosine_vote

step "draw the picture"
robustfl-results plot accuracy --output accuracy.png
ls -l accuracy.png

step "done"
