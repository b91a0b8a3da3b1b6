"""Parts that are defined in the cells of a notebook: they work, and their code counts as that of a file does."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SHELL = '''
import linecache, pathlib, warnings

CELLS = {count}

def cell(text):
    """Execute a text as IPython does, which leaves it in linecache under a name of its own."""
    global CELLS
    CELLS += 1
    name = f"<ipython-input-{CELLS}-abc>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), globals())

def run(*overrides):
    """Print the result of a run, and whether a stored one answered."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        result = robustfl_bench.run("aggregator=__main__:Mine", "model=linear", "rounds=1", "num_clients=6", *overrides)
    written = (result.path / "summary.json").stat().st_mtime_ns
    answered = WRITTEN.get(result.path) == written
    WRITTEN[result.path] = written
    print("stored" if answered else "made", *(str(note.message) for note in notes), sep="; ")

WRITTEN = {path.parent: path.stat().st_mtime_ns for path in pathlib.Path("results").glob("runs/*/summary.json")}
cell("""import robustfl_bench
from dataclasses import dataclass
from robustfl_bench.interfaces import Aggregator, Attack, Crafted""")
cell("scale = 1.0\\n" "def weight(n):\\n" "    return scale / n\\n")
RULE = """
other = 1
@dataclass(frozen=True)
class Mine(Aggregator):
    \\"\\"\\"The mean, times a factor.\\"\\"\\"
    stretch: float = 1.0
    def aggregate(self, updates, server):
        return updates.combine(updates.counts.new_full((updates.n,), self.stretch * weight(updates.n)))
"""
'''

Shell = Callable[..., list[str]]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Runs cells in a process without a main file; returns the lines that they print."""

    def call(cells: str, count: int = 0) -> list[str]:
        code = SHELL.replace("{count}", str(count)) + cells
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return call


def test_a_rule_of_a_cell_is_an_option_and_its_result_is_stored(shell: Shell) -> None:
    assert shell("cell(RULE); run(); run('aggregator.stretch=2'); run()") == ["made", "made", "stored"]


def test_another_session_answers_from_the_same_cells(shell: Shell) -> None:
    """The number of a cell, other statements of it, comments and docstrings do not count."""
    shell("cell(RULE); run()")
    again = "cell(RULE.replace('other = 1', 'other = 2  # more').replace('The mean', 'An average')); run()"
    assert shell(again, count=7) == ["stored"]


EDITS = (
    "RULE.replace('self.stretch *', '-self.stretch *')",  # the class
    "'def weight(n):\\n    return scale / n / 2'",  # a function that it calls
    "'scale = 2.0'",  # a value
)


def test_an_edited_cell_is_other_code(shell: Shell) -> None:
    first, *others = shell("cell(RULE); run()" + "".join(f"; cell({edit}); run(); run()" for edit in EDITS))
    assert first == "made"
    for edited, again in zip(others[::2], others[1::2], strict=True):
        assert (
            edited.startswith("made; stored result not used: ") and "other code of aggregator (__main__.Mine" in edited
        )
        assert again == "stored"


def test_code_without_a_source_answers_no_later_run(shell: Shell) -> None:
    lock = "import threading\nscale = threading.Lock()\ndef weight(n):\n    return 1 / n if scale else 0\n"
    first, second, third = shell(f"exec(RULE); run(); run(); cell(RULE); cell({lock!r}); run('seed=1')")
    assert first == third == "made; __main__.Mine has no source: its result answers no later run"
    assert second.startswith("made; stored result not used: ") and "code that has no source (__main__.Mine)" in second


def test_an_attack_of_a_cell_works_and_what_it_reads_counts(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "factor.txt").write_text("1")
    attack = (
        "class Back(Attack):\n    def craft(self, view):\n"
        "        return Crafted(-view.mean * float(__import__('pathlib').Path('factor.txt').read_text()))\n"
    )
    go = "run('attack=__main__:Back', 'num_byzantine=1')"
    edit = "pathlib.Path('factor.txt').write_text('2')"
    first, second, third = shell(f"cell(RULE); cell({attack!r}); {go}; {go}; {edit}; {go}")
    assert first.startswith("made; attack reads ") and second == "stored"
    assert third.startswith("made; stored result not used: ") and "factor.txt, which attack reads" in third
