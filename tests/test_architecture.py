"""ARCHITECTURE.md and its picture are as the code is, and every file that the page names is there."""

import re

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
