"""Imports go one way, as the design says, and never in a circle; and nothing heavy is imported early."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import robustfl_bench

PACKAGE = Path(robustfl_bench.__file__).parent
GROUPS_OF_PARTS = {path.parent.name for path in PACKAGE.glob("*/base.py")} | {"trackers"}
RULES = (
    "aggregators", "attacks", "partitions", "pre_aggregations", "corruptions", "augmentations", "models",
    "protocols", "server_optimizers", "availability",
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


def imported(path: Path, known: set[str], with_types: bool) -> set[str]:
    """Modules of the package that a file imports, also inside functions and, ``with_types``, for type checkers; those
    outside by their first name."""
    found = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree) if with_types else run(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in (f"{node.module}.{alias.name}" for alias in node.names):
                found.add(name if name in known else node.module)
    return {name if name in known else name.split(".")[0] for name in found}


@cache
def graph(with_types: bool = False) -> dict[str, set[str]]:
    names = modules()
    return {name: imported(path, set(names), with_types) - {name} for name, path in names.items()}


def room(name: str) -> str:
    """The folder, or the single module, at the top of the package in which a module is."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def rooms(everything: dict[str, set[str]]) -> dict[str, set[str]]:
    """The rooms that each room imports from, late and for type checkers included; ``__init__`` and ``__main__`` only
    open doors."""
    arrows: dict[str, set[str]] = {}
    for name, targets in everything.items():
        if room(name) not in ("", "__main__"):
            inside = {room(target) for target in targets if target.startswith("robustfl_bench.")}
            arrows.setdefault(room(name), set()).update(inside - {room(name), ""})
    return arrows


def test_no_room_and_no_module_imports_from_one_that_imports_from_it() -> None:
    known = set(modules())
    assert len(known) > 60
    everything = graph(with_types=True)
    inside = {name: {target for target in targets if target in known} for name, targets in graph().items()}
    list(TopologicalSorter(inside).static_order())
    order = list(TopologicalSorter(rooms(everything)).static_order())
    floor = {place: order.index(place) for place in order}
    assert floor["base"] == 0
    assert floor["engine"] < floor["config"] < floor["store"] < floor["runs"] < floor["tables"] < floor["pages"]
    assert floor["commands"] > floor["sweeps"] > floor["experiment"]


def test_few_modules_know_hydra_and_only_what_is_public() -> None:
    users = {name for name, targets in graph().items() if targets & {"hydra", "omegaconf"}}
    late = {f"config.{name}" for name in ("beyond", "interpolate")}  # only where Hydra is at work or has plugins
    own = {"config.by_hydra", "config.omega", *(f"sweeps.{name}" for name in ("front", "launch", "tasks"))}
    assert users == {f"robustfl_bench.{name}" for name in own | late}
    plugins = PACKAGE.parent / "hydra_plugins"
    for path in [*PACKAGE.rglob("*.py"), *(PACKAGE.parent / "tests").glob("*.py"), *plugins.glob("*.py")]:
        assert "hydra._" + "internal" not in path.read_text(encoding="utf-8"), path


def test_rules_know_their_base_and_numerics_and_never_each_other() -> None:
    allowed = {"base", "numerics", "datasets", "aggregators"}  # of datasets and aggregators only the base classes
    for name, targets in graph(with_types=True).items():
        if room(name) not in RULES:
            continue
        others = {target for target in targets if target.startswith("robustfl_bench.") and room(target) != room(name)}
        others = {target for target in others if not target.endswith(".base") and target != "robustfl_bench.numerics"}
        assert {room(target) for target in others} <= allowed - {"datasets", "aggregators"}, (name, others)


def test_the_engine_names_no_rule_and_results_know_no_engine() -> None:
    above = {"store", "runs", "tables", "pages", "experiment", "commands"}
    arrows = rooms(graph(with_types=True))
    for name, targets in graph(with_types=True).items():
        if room(name) in ("engine", "network"):
            parts = {target for target in targets if room(target) in (*RULES, "clustering", "datasets")}
            parts -= {"robustfl_bench.protocols.state"}  # what a round starts from and what it leaves
            assert all(target.endswith(".base") for target in parts), (name, parts)
            assert not {room(target) for target in targets} & above, (name, targets)
    for place in ("store", "runs", "tables"):
        assert not arrows[place] & {"experiment", "network", *RULES}, place
    for name, targets in graph(with_types=True).items():
        if name.startswith("robustfl_bench.read.pages.pictures"):
            inside = {target for target in targets if target.startswith("robustfl_bench.")}
            assert {target.split(".")[2] for target in inside} <= {"pictures", "errors", "names", "options"}, (
                name,
                inside,
            )


def test_a_class_name_has_one_meaning() -> None:
    """Options of different groups and templates may share a name; the name of their module says of which they are."""
    homes: dict[str, list[str]] = {}
    for name, path in modules().items():
        if room(name) not in GROUPS_OF_PARTS and "templates" not in name:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes.setdefault(node.name, []).append(name)
    assert len(homes) > 100
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_looking_at_results_and_data_needs_no_torch() -> None:
    code = (
        "import sys, robustfl_bench.commands.results, robustfl_bench.commands.data;"
        "sys.exit(any(name in sys.modules for name in ('torch', 'hydra', 'pandas', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


LATE = """
import sys
from robustfl_bench.commands import entry
sys.argv = ["robustfl-bench", *sys.argv[1:]]
try:
    entry.bench()
except SystemExit as stop:
    slow = ("torch", "pandas", "matplotlib", "hydra", "omegaconf")
    found = [name for name in slow if name in sys.modules]
    print(stop.code or 0, *found)
"""


def needed(*words: str) -> list[str]:
    """The exit code of ``robustfl-bench`` with these words, and which of the slow libraries it has imported."""
    done = subprocess.run([sys.executable, "-c", LATE, *words], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--list"], "0"),
        (["--list", "dataset"], "0"),
        (["rounds=0"], "2"),
        (["aggregator=krumm"], "2"),
        (["aggregator=krum", "--cfg", "job", "--resolve"], "0"),
        (["--nothing"], "2"),
        (["lr=flot(1)"], "2"),
        (["lr=${rb.shar:1,2}"], "2"),
        (["+aggregatr.f=1"], "2"),
        (["probe", "--help"], "0"),
        (["probe", "boba/nothing"], "2"),
        (["resilience", "--help"], "0"),
        (["judge", "--help"], "0"),
        (["judge", "nothing"], "2"),
        (["decide", "--help"], "0"),
        (["decide", "nothing"], "2"),
    ],
)
def test_help_lists_and_refusals_need_nothing_heavy(words: list[str], code: str) -> None:
    assert needed(*words) == [code]


def test_help_comes_from_hydra_alone() -> None:
    assert needed("--help") == ["0", "hydra", "omegaconf"]


def test_a_run_needs_no_hydra_and_a_stored_result_no_torch(tmp_path: Path) -> None:
    own = ["+my.rate=0.5", "lr=${my.rate}", f"results_dir={tmp_path}/${{now:%Y}}"]
    run = ["rounds=1", "num_byzantine=0", "model.hidden=[2]", *own]
    assert needed(*run) == ["0", "torch"]
    assert needed(*run) == ["0"]
