"""Imports go one way, as the design says, and never in a circle; and nothing heavy is imported early."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import robustfl_bench
from scripts.generators.architecture import WINGS

PACKAGE = Path(robustfl_bench.__file__).parent
GROUPS_OF_PARTS = {path.parent.name for path in PACKAGE.glob("parts/*/base.py")}
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


def wing(name: str) -> str:
    """The folder, or the single module, at the top of the package in which a module is."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def room(name: str) -> str:
    """The folder in a wing in which a module is, ``aggregators``, or the wing, if the module lies in it; training with
    its metrics is one room."""
    parts = name.split(".")
    is_room = len(parts) > 3 or (len(parts) == 3 and PACKAGE.joinpath(*parts[1:]).is_dir())
    return parts[2] if is_room and wing(name) in WINGS and wing(name) != "train" else wing(name)


def arrows(everything: dict[str, set[str]], place: Callable[[str], str]) -> dict[str, set[str]]:
    """The places that each place imports from, late and for type checkers included; the modules at the top only open
    doors."""
    targets_of: dict[str, set[str]] = {}
    for name, targets in everything.items():
        if wing(name) in WINGS:
            inside = {place(target) for target in targets if wing(target) in WINGS}
            targets_of.setdefault(place(name), set()).update(inside - {place(name)})
    return targets_of


def test_no_wing_no_room_and_no_module_imports_from_one_that_imports_from_it() -> None:
    known = set(modules())
    assert len(known) > 60
    everything = graph(with_types=True)
    inside = {name: {target for target in targets if target in known} for name, targets in graph().items()}
    list(TopologicalSorter(inside).static_order())
    list(TopologicalSorter(arrows(everything, lambda name: f"{wing(name)}.{room(name)}")).static_order())
    for above, targets in arrows(everything, wing).items():
        assert all(WINGS.index(target) < WINGS.index(above) for target in targets), (above, targets)


def test_the_first_screen_has_nine_wings_and_little_else() -> None:
    entries = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    entries -= {"__init__", "__main__", "__pycache__", "conf", "kept", "docs"}
    assert set(WINGS) <= entries and len(entries) <= 12, entries


def test_names_in_strings_go_the_same_way_as_imports() -> None:
    """A dotted name in a string is an import too, as of the modules of the command line."""
    seen = 0
    for name, path in modules().items():
        if wing(name) in WINGS:
            nodes = list(ast.walk(ast.parse(path.read_text())))
            said = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings
            for node in nodes:
                is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
                text = node.value if is_text else ""
                for target in re.findall(rf"robustfl_bench\.(?:{'|'.join(WINGS)})(?:\.\w+)+", text):
                    seen += 1
                    assert WINGS.index(wing(target)) <= WINGS.index(wing(name)), (name, target)
    assert seen > 10


def test_few_modules_know_hydra_and_only_what_is_public() -> None:
    users = {name for name, targets in graph().items() if targets & {"hydra", "omegaconf"}}
    own = {"config.by_hydra", "config.omega", *(f"sweeps.{name}" for name in ("launch", "tasks"))}
    own |= {"plugins.hydra_plugins.robustfl_bench", "config.beyond"}  # the last only where Hydra has plugins
    assert users == {f"robustfl_bench.runner.{name}" for name in own}
    for path in [*PACKAGE.rglob("*.py"), *(PACKAGE.parent / "tests").glob("*.py")]:
        assert "hydra._" + "internal" not in path.read_text(encoding="utf-8"), path


def test_rules_know_their_base_and_numerics_and_never_each_other() -> None:
    for name, targets in graph(with_types=True).items():
        if wing(name) == "parts" and room(name) in RULES:
            others = {target for target in targets if wing(target) in WINGS and room(target) != room(name)}
            others = {target for target in others if wing(target) not in ("base", "numerics")}
            assert all(target.endswith(".base") for target in others), (name, others)
            assert {room(target) for target in others} <= {"datasets", "aggregators", "attacks", "local_updates",
                                                           "pre_aggregations"}, (name, others)  # fmt: skip


def test_training_names_no_rule_and_pictures_know_no_results() -> None:
    for name, targets in graph(with_types=True).items():
        if wing(name) in ("train", "numerics"):
            parts = {target for target in targets if wing(target) == "parts" and room(target) in GROUPS_OF_PARTS}
            parts -= {"robustfl_bench.parts.protocols.state"}  # what a round starts from and what it leaves
            parts = {target for target in parts if room(target) not in ("server_data", "local_updates")}
            assert all(target.endswith(".base") for target in parts), (name, parts)
        if name.startswith(("robustfl_bench.runner.store", "robustfl_bench.read.runs", "robustfl_bench.read.tables")):
            assert not any(room(target) in RULES for target in targets), (name, targets)
        if name.startswith("robustfl_bench.read.pages.pictures"):
            inside = {
                target.split(".")[-1] for target in targets if wing(target) in WINGS and ".pictures" not in target
            }
            assert inside <= {"errors", "names", "options"}, (name, inside)


def test_a_class_name_has_one_meaning() -> None:
    """Options of different groups and templates may share a name; the name of their module says of which they are."""
    homes: dict[str, list[str]] = {}
    for name, path in modules().items():
        if wing(name) != "parts" and "templates" not in name:
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
        (["fill", "--help"], "0"),
        (["fill", "nothing", "--minutes", "1"], "2"),
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
