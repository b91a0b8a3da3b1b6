"""Imports go one way, as the design says, and never in a circle; and nothing heavy is imported early."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import robustfl_bench

PACKAGE = Path(robustfl_bench.__file__).parent
RULES = (
    "aggregators", "attacks", "partitions", "pre_aggregations", "corruptions", "augmentations", "models",
    "communication", "server_optimizers", "availability",
)  # fmt: skip


def modules() -> dict[str, Path]:
    names = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def for_type_checkers(node: ast.AST) -> bool:
    """Whether the statement is ``if TYPE_CHECKING:``, which is never run."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def run(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module, but for what only type checkers read."""
    yield tree
    children = tree.orelse if for_type_checkers(tree) else ast.iter_child_nodes(tree)  # type: ignore[attr-defined]
    for child in children:
        yield from run(child)


def imported(path: Path, known: set[str]) -> set[str]:
    """Modules of the package that a file imports, also inside functions; those outside by their first name."""
    found = set()
    for node in run(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in (f"{node.module}.{alias.name}" for alias in node.names):
                found.add(name if name in known else node.module)
    return {name if name in known else name.split(".")[0] for name in found}


def graph() -> dict[str, set[str]]:
    names = modules()
    return {name: imported(path, set(names)) - {name} for name, path in names.items()}


def test_the_import_graph_has_no_cycle() -> None:
    known = set(modules())
    assert len(known) > 60
    inside = {name: {target for target in targets if target in known} for name, targets in graph().items()}
    list(TopologicalSorter(inside).static_order())


def test_only_composition_and_what_leads_to_it_know_hydra() -> None:
    users = {name for name, targets in graph().items() if targets & {"hydra", "omegaconf"}}
    assert {room(name) for name in users} == {"cli", "composition", "config", "experiment", "explain", "sweep"}


def room(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def test_rules_do_not_know_the_engine_nor_each_others_rooms() -> None:
    engine = {"engine"}
    forbidden = engine | {"experiment", "cli", "config", "results", "datasets", "seeding"}
    for name, targets in graph().items():
        if room(name) not in RULES:
            continue
        others = {room(target) for target in targets if target.startswith("robustfl_bench.")} - {room(name)}
        assert not others & (forbidden | set(RULES)), (name, others)


def test_the_engine_names_no_rule_and_results_know_no_engine() -> None:
    everything = graph()
    rooms = {name: {room(target) for target in targets if "." in target} for name, targets in everything.items()}
    others = {*RULES, "clustering", "results", "datasets", "experiment", "cli"}
    assert sum(room(name) == "engine" for name in rooms) > 5
    for name, targets in rooms.items():
        if room(name) == "engine":
            assert not targets & others, (name, targets)
    for name, targets in rooms.items():
        if room(name) == "results":
            ground = {"metrics", "errors", "console", "package", "kept", "pictures"}
            more = {"arena"} if name == "robustfl_bench.results.cli" else set()
            assert targets <= {"results", "papers", "config", *ground, *more}, (name, targets)
        if room(name) == "pictures":
            assert targets <= {"pictures", "errors"}, (name, targets)
        if room(name) == "papers":
            assert targets <= {"papers", "config", "errors"}, (name, targets)


def test_looking_at_results_and_data_needs_no_torch() -> None:
    code = (
        "import sys, robustfl_bench.results.cli, robustfl_bench.datasets.cli;"
        "sys.exit(any(name in sys.modules for name in ('torch', 'hydra', 'pandas', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


LATE = """
import sys
from robustfl_bench import entry
sys.argv = ["robustfl-bench", *sys.argv[1:]]
try:
    entry.bench()
except SystemExit as stop:
    found = [name for name in ("torch", "pandas", "matplotlib") if name in sys.modules]
    print(stop.code or 0, *found)
"""


def needed(*words: str) -> list[str]:
    """The exit code of ``robustfl-bench`` with these words, and which of the slow libraries it has imported."""
    done = subprocess.run([sys.executable, "-c", LATE, *words], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], "0"),
        (["--list"], "0"),
        (["--list", "dataset"], "0"),
        (["rounds=0"], "2"),
        (["aggregator=krumm"], "2"),
        (["probe", "--help"], "0"),
        (["probe", "boba/nothing"], "2"),
        (["resilience", "--help"], "0"),
    ],
)
def test_help_lists_and_refusals_need_nothing_heavy(words: list[str], code: str) -> None:
    assert needed(*words) == [code]


def test_a_stored_result_is_answered_without_torch(tmp_path: Path) -> None:
    run = ["rounds=1", "num_byzantine=0", "model.hidden=[2]", f"results_dir={tmp_path}"]
    assert needed(*run) == ["0", "torch"]
    assert needed(*run) == ["0"]
