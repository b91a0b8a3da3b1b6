"""ARCHITECTURE.md and its picture are as the code is, and every file that the page names is there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from robustfl_bench.runner.config.options import CONF
from scripts.generators import architecture
from scripts.generators.architecture import PACKAGE, PAGE, PICTURE, ROOT, WINGS

PLACES = re.compile(r"`((?:conf|scripts|tests|robustfl_bench|\w+)/[\w/.]*)`")


def test_page_and_picture_are_todays() -> None:
    assert architecture.page() == PAGE.read_text(encoding="utf-8"), "make architecture"
    assert architecture.picture() == PICTURE.read_text(encoding="utf-8"), "make architecture"


def test_every_place_on_the_page_exists() -> None:
    names = [name for name in PLACES.findall(PAGE.read_text(encoding="utf-8")) if not re.search("NAME|PAPER", name)]
    assert len(names) > 20
    for name in names:
        assert (ROOT / name).exists() or (PACKAGE / name).exists(), name


def test_every_wing_says_what_it_is_for() -> None:
    assert all(20 < len(architecture.paragraph(wing).split()) < 60 for wing in WINGS if wing != "commands")


def test_all_but_its_verbs_works_without_the_laboratory(tmp_path: Path) -> None:
    copied = tmp_path / "robustfl_bench"
    shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__", "conf", "kept"))
    shutil.rmtree(copied / "lab")
    (tmp_path / "conf").symlink_to(CONF)

    def command(program: str, *words: str) -> subprocess.CompletedProcess[str]:
        code = f"import sys; from robustfl_bench.commands import entry; sys.argv[0] = {program!r}; entry.{program}()"
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.run(
            [sys.executable, "-c", code, *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    small = ["rounds=2", "model.hidden=[4]", "num_byzantine=2", "attack=ipm"]
    assert command("bench", *small).stdout.startswith("result: accuracy ")
    assert command("bench", "-m", *small, "seed=1,2", "aggregator=krum,median").returncode == 0
    assert "krum" in command("results", "table", "--where", "seed=1,2").stdout
    assert command("results", "report", "--output", "report.html").returncode == 0
    assert (tmp_path / "report.html").stat().st_size > 10_000
    absent = command("bench", "arena", "enter", "krum")
    assert absent.returncode == 2 and absent.stderr.startswith("arena needs the laboratory"), absent.stderr
    assert command("results", "recommend").returncode == 2
