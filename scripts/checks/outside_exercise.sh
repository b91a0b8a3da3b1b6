#!/usr/bin/env bash
# A stranger's walk with the built wheel, outside the repository, timed: install, a first run, a rule of one's own in a
# file and in the cell of a notebook, its verdict, its row on the arena's board, a figure and a table in a page of two
# columns (where pdflatex is installed), and which rule to use.
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
  "$work/venv/bin/pip" install --quiet --constraint "$root/constraints.txt" "$work"/*.whl pytest nbclient ipykernel
fi
PATH="$work/venv/bin:$PATH"
mkdir "$work/project"
cd "$work/project"

step "a first run: Krum under an attack"
robustfl-bench aggregator=krum attack=ipm

step "start a rule from a template"
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
  rounds=30 eval_every=5 model.hidden=[32] results_dir=compared \
  > runs.txt
tail -n 1 runs.txt

step "show the table, and the differences to the rule with their intervals"
robustfl-results table --results-dir compared
robustfl-results table --results-dir compared --versus cosine_vote

step "draw the picture"
robustfl-results plot accuracy --results-dir compared --output accuracy.png
ls -l accuracy.png

step "a rule in the cell of a notebook"
cat > cells.py <<'CELLS'
import nbclient, nbformat

cells = """
import robustfl_bench as rb

class Halves(rb.Aggregator):
    def aggregate(self, updates, server):
        shorter = updates.norms.argsort()[: (updates.n + 1) // 2]
        weights = updates.counts.new_zeros(updates.n)
        weights[shorter] = 1 / len(shorter)
        return updates.combine(weights)

runs = rb.sweep(aggregator=[Halves(), "krum"], attack=["none", "ipm"], seed=range(2), rounds=20)
runs.groupby(["aggregator", "attack"])["final_accuracy"].mean().round(3)
===
rb.plot.accuracy(runs, where="attack=ipm")
""".split("===")
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in cells])
nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
shown = [output.data for cell in notebook.cells for output in cell.outputs if output.output_type == "execute_result"]
print(shown[0]["text/plain"])
assert any("image/png" in output.get("data", {}) for cell in notebook.cells for output in cell.outputs)
CELLS
python cells.py

step "the verdict on the rule"
robustfl-bench judge cosine_vote:CosineVote --quick --output verdict.md

step "its row on the board"
robustfl-bench arena enter cosine_vote:CosineVote --protocol digits --partitions iid --attackers 5 --attacks ipm,lie \
  --seeds 0
robustfl-results arena digits --entries entries

step "a figure and a table in a page of two columns"
robustfl-results plot heat --results-dir compared --width column --bare --labels cosine_vote=Ours --output heat.pdf
robustfl-results table --results-dir compared --layout compact --width column --bare --labels cosine_vote=Ours --format latex \
  --caption 'Test accuracy in percent.' --label tab:ours > table.tex
cat > paper.tex <<'PAPER'
\documentclass[twocolumn]{article}
\usepackage{booktabs,graphicx}
\title{A rule of ours}
\author{}
\begin{document}
\maketitle
Table~\ref{tab:ours} and Figure~\ref{fig:ours} compare our rule with six others.
\begin{figure}
  \centering
  \includegraphics[width=\columnwidth]{heat}
  \caption{Test accuracy under each attack.}
  \label{fig:ours}
\end{figure}
\input{table}
\end{document}
PAPER
if command -v pdflatex > /dev/null; then
  pdflatex -interaction=nonstopmode -halt-on-error paper.tex > latex.txt
  pdflatex -interaction=nonstopmode -halt-on-error paper.tex > latex.txt
  if grep -E 'Overfull|undefined' latex.txt; then exit 1; fi
  ls -l paper.pdf
fi

step "which rule for label skew with 20% attackers?"
robustfl-results recommend --partition dirichlet --attackers 0.2

step "done"
