"""The digest of a run's code: of the files that its numbers come from, and of no others."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from robustfl_bench.base import code_digest, source_code
from robustfl_bench.config import compose

LOADED = """
import sys
sys.argv[1:] = {overrides!r}
from robustfl_bench.commands import bench as cli
try:
    cli.main()
finally:
    print(*(name for name in sys.modules if name.startswith("robustfl_bench.")), file=sys.stderr)
"""


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package that takes the place of the package itself."""
    folder = tmp_path / "robustfl_bench"
    shutil.copytree(code_digest.PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__", "*.npz", "conf"))
    monkeypatch.setattr(code_digest, "PACKAGE", folder)
    forget()
    yield folder
    forget()


def forget() -> None:
    for module in (code_digest, source_code):
        for cached in filter(lambda one: hasattr(one, "cache_clear"), vars(module).values()):
            cached.cache_clear()


def digest(*overrides: str) -> str:
    return code_digest.code_digest(compose.resolve(overrides).identity)


def test_an_edit_changes_the_runs_that_it_can_change_and_no_others(copied: Path) -> None:
    runs: dict[str, partial[str]] = {
        "krum": partial(digest, "aggregator=krum"),
        "boba": partial(digest, "aggregator=boba"),
        "worst": partial(digest, "attack=worst"),
        "nested": partial(digest, "aggregator=b_krum"),
        "chain": partial(digest, "pre_aggregation=[clipping,nnm]"),
    }
    changes = {
        "pages/plots.py": set(),
        "config/presets.py": set(),
        "commands/bench.py": set(),
        "aggregators/krum.py": {"krum", "nested"},
        "attacks/minmax.py": {"worst"},  # which asks about it
        "pre_aggregations/clipping.py": {"chain"},
        "engine/loop.py": set(runs),
        "base/seeding.py": set(runs),
        "numerics/products.py": set(runs),  # imported by what the loop imports
    }
    for file, expected in changes.items():
        before = {name: run() for name, run in runs.items()}
        with (copied / file).open("a") as opened:
            opened.write("\nEDITED = True\n")
        forget()
        changed = {name for name, run in runs.items() if run() != before[name]}
        assert changed == expected, file


def test_what_only_type_checkers_import_does_not_count(copied: Path) -> None:
    loop = copied / "engine" / "loop.py"
    loop.write_text(loop.read_text() + "\nif TYPE_CHECKING:\n    from robustfl_bench.pages import plots\n")
    before = digest()
    (copied / "pages" / "plots.py").write_text("")
    forget()
    assert digest() == before
    loop.write_text(loop.read_text() + "\ndef late():\n    from robustfl_bench.tables import sheets\n")
    forget()
    before = digest()
    (copied / "tables" / "sheets.py").write_text("")
    forget()
    assert digest() != before, "an import inside a function is executed"


def test_every_module_of_numbers_that_a_run_loads_is_in_its_digest(tmp_path: Path) -> None:
    overrides = ["aggregator=boba", "attack=worst", "rounds=1", "model.hidden=[4]", "pre_aggregation=[clipping,nnm]"]
    code = LOADED.format(overrides=[*overrides, f"results_dir={tmp_path}"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    identity = str(compose.resolve(overrides).identity)
    covered = {str(path) for path in code_digest.files_of(identity)}
    rooms = (
        "engine",
        "numerics",
        "aggregators",
        "attacks",
        "partitions",
        "pre_aggregations",
        "local_updates",
        "models",
    )
    loaded = [name for name in done.stderr.split() if name.split(".")[1] in rooms and name.count(".") > 1]
    assert len(loaded) > 20
    for name in loaded:
        assert str(code_digest.PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")) in covered, name


def test_the_digest_of_the_package_is_that_of_all_its_files(copied: Path) -> None:
    first = code_digest.package_digest()
    (copied / "pages" / "plots.py").write_text("")
    forget()
    assert code_digest.package_digest() != first
