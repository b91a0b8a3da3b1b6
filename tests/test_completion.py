"""Tab completion of the four commands, driven in a real bash."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from robustfl_bench.commands.entry import PROGRAMS
from robustfl_bench.read.tables import described
from robustfl_bench.runner.config import options

BREAKS = " \t\n\"'><=;|&(:"  # as in an interactive bash
ASK = """
eval "$(robustfl-bench completion)"
COMP_WORDBREAKS=$1; shift
for COMP_LINE in "$@"; do
  COMP_POINT=${#COMP_LINE} COMPREPLY=() COMP_TYPE=9
  _python_argcomplete ${COMP_LINE%% *}
  printf '%s|' "${COMPREPLY[@]}"; echo
done
"""
OFFERED = {
    "robustfl-bench aggregator=kr": ["krum"],
    "robustfl-bench aggreg": ["aggregator="],
    "robustfl-bench -m aggregator=krum,bob": [
        f"krum,{name}" for name in options.names("aggregator") if name.startswith("bob")
    ],
    "robustfl-bench -m +experiment=bo": [name for name in options.names("experiment") if name.startswith("bo")],
    "robustfl-bench +setting=boba/mn": ["boba/mnist"],
    "robustfl-bench +thr": ["+threat="],
    "robustfl-bench aggregator=krum aggregator.num_s": ["aggregator.num_selected="],
    "robustfl-bench scale=": ["quick", "paper"],
    "robustfl-bench results_dir=kep": ["kept/"],
    "robustfl-bench res": ["results_dir=", "resilience"],
    "robustfl-bench --mul": ["--multirun"],
    "robustfl-bench --list aggregator me": [name for name in options.names("aggregator") if name.startswith("me")],
    "robustfl-bench new agg": ["aggregator"],
    "robustfl-results tab": ["table"],
    "robustfl-results table boba/": [
        name for name in {**described.tables(), **described.layouts()} if name.startswith("boba/")
    ],
    "robustfl-results table --layout com": ["compact"],
    "robustfl-results table --cap": ["--caption"],
    "robustfl-results list raga/fig": [name for name in described.figures() if name.startswith("raga/fig")],
    "robustfl-data prepare fem": ["femnist"],
    "robustfl-data partition partition=dir": ["dirichlet"],
    "robustfl-ring aggregator=brac": ["brace"],
    "robustfl-ring --time": ["--timeout"],
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_tab_offers_what_exists(tmp_path: Path) -> None:
    for program in PROGRAMS:
        name = program.removeprefix("robustfl-")
        script = tmp_path / program
        script.write_text(f"#!{sys.executable}\nfrom robustfl_bench.commands.entry import {name}\n{name}()\n")
        script.chmod(0o755)
    (tmp_path / "kept").mkdir()
    root = Path(described.__file__).parents[2]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(root)}
    command = ["bash", "-c", ASK, "bash", BREAKS, *OFFERED]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    offered = [sorted(filter(None, (word.strip() for word in line.split("|")))) for line in done.stdout.splitlines()]
    assert dict(zip(OFFERED, offered, strict=True)) == {line: sorted(words) for line, words in OFFERED.items()}
