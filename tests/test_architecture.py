"""ARCHITECTURE.md and its picture are as the code is, and every file that the page names is there."""

import re
import shutil
from pathlib import Path

from scripts.generators import architecture
from scripts.generators.architecture import PACKAGE, PAGE, PICTURE, ROOT, WINGS
from tests.installed import copied, of_copy

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
    shutil.rmtree(copied(tmp_path) / "lab")
    small = ("rounds=2", "model.hidden=[4]", "num_byzantine=2", "attack=ipm")
    one, sweep, table, report, enter, recommend = of_copy(
        tmp_path,
        ("bench", *small),
        ("bench", "-m", *small, "seed=1,2", "aggregator=krum,median"),
        ("results", "table", "--where", "seed=1,2"),
        ("results", "report", "--output", "report.html"),
        ("bench", "arena", "enter", "krum"),
        ("results", "recommend"),
    )
    assert one.out.startswith("result: accuracy ") and sweep.code == 0, (one, sweep)
    assert "krum" in table.out and report.code == 0, (table, report)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    enter.refused(2, "arena needs the laboratory")
    assert recommend.code == 2
