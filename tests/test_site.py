"""The site: every page of the repository is on it, and its generated pages say what they are generated from."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

import robustfl_bench
from robustfl_bench.commands import data, results
from robustfl_bench.commands.verb import name_of
from robustfl_bench.doors.catalogue.entries import option
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.runner.config import options
from robustfl_bench.train.metrics import METRICS
from scripts.checks import site_links
from scripts.generators import arena, board, site_pages

ROOT = Path(__file__).resolve().parents[1]


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml without the objects of Python in it."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)
SETTINGS = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader)


def _places(navigation: Any) -> list[str]:
    if isinstance(navigation, str):
        return [navigation]
    values = navigation.values() if isinstance(navigation, dict) else navigation
    return [place for value in values for place in _places(value)]


def test_the_navigation_has_every_page_once() -> None:
    places = _places(SETTINGS["nav"])
    hand_written = {
        path.relative_to(ROOT / "scripts" / "site").as_posix() for path in (ROOT / "scripts" / "site").glob("*.md")
    }
    generated = {"arena/board.md", "partitions.md", site_pages.NOTEBOOK, *(name for name, _ in site_pages.reference())}
    generated |= {f"results/arena/{name}.md" for name in arena.OF_SITE}
    tables = site_pages.tables()
    assert not {*site_pages.copied()} & {*tables}, "a page that the site makes is no file of the repository"
    assert sorted(places) == sorted({*site_pages.copied(), *tables, *hand_written, *generated})


def absent(name: str, text: str) -> set[str]:
    """The files that a page links to and that the repository has not."""
    targets = {match["target"] for match in site_pages.links(text) if "://" not in match["target"]}
    places = {os.path.normpath(Path(name).parent / target) for target in targets}
    return {place for place in places if not (ROOT / place).exists()}


def test_links_of_the_repository_lead_to_its_files() -> None:
    assert {name: absent(name, text) for name, text in site_pages.copied().items() if absent(name, text)} == {}


def test_pages_that_are_made_have_links_to_files_or_to_each_other() -> None:
    """A page of every kind. `make site` follows the links of all; tests/test_claims.py has what pages of papers say."""
    makers = site_pages.tables()
    kinds = ["conf/CATALOGUE.md", "results/definitions.md", "results/bench/places.md", "results/resilience/mixed.md",
             "results/fedbuff/attacked.md"]  # fmt: skip
    pages = {name: makers[name]() for name in kinds}
    assert all(page.startswith("# ") for page in pages.values())
    assert [place for name, text in pages.items() for place in absent(name, text) - {*makers}] == []
    rules, places = options.names("aggregator"), pages["results/bench/places.md"]
    assert sum(f"| {rule} | " in places for rule in rules) > 50
    assert "| trimmed mean | ARC | 1 | 0.021 | 0.084 |" in pages["results/resilience/mixed.md"]


def test_the_pages_of_the_reference_have_all_commands_columns_and_names() -> None:
    pages = dict(site_pages.reference())
    for program, verbs in (("robustfl-results", results.VERBS), ("robustfl-data", data.VERBS)):
        for verb in map(name_of, verbs):
            assert f"### {program} {verb}\n\n```text\nusage: {program} {verb}" in pages["reference/commands.md"]
    assert all(f"| `{metric.name}` | {metric.heading} |" in pages["reference/columns.md"] for metric in METRICS)
    shown = set(re.findall(r"^::: \S+\.(\w+)$", pages["reference/python.md"], re.MULTILINE))
    assert set(robustfl_bench.__all__) - shown == {"Flag", "Number", "SCALE"}, (
        "the names that are no class, function or module"
    )


def test_the_page_of_a_rule_is_its_docstring_its_keys_and_its_code() -> None:
    page = "\n".join([*board.described(option("aggregator", "krum")), *board.code(option("aggregator", "krum"))])
    sentences = " ".join(str(Krum.__doc__).replace("``", "`").split()).split(". ")
    words = " ".join(page.split())
    assert len(sentences) > 5 and [sentence for sentence in sentences if sentence not in words] == []
    assert "| `num_selected` | `1` | >= 1 |" in page and "class Krum(" in page and "_target_: " in page
    assert page.startswith("# Krum\n")
    alias = "\n".join(board.described(option("aggregator", "median")))
    assert "Another word for [median](coomed.md), `coomed`." in alias and "## What it computes" in alias


def test_every_picture_of_the_repository_is_on_a_page_and_has_a_palette() -> None:
    pages = [page for pattern in site_pages.COPIED for page in ROOT.glob(pattern)]
    shown = {(page.parent / place).resolve() for page in pages
             for place in re.findall(r"!\[[^\]]+\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))}  # fmt: skip
    pictures = [path for path in (ROOT / "results").rglob("*.png") if "demo" not in path.parts]  # of make run
    assert len(pictures) > 40 and [path.name for path in pictures if path.resolve() not in shown] == []
    assert [path.name for path in pictures if Image.open(path).mode != "P"] == []


def test_links_of_a_built_site_are_checked(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="b.html#top">b</a><a href="https://x.org">x</a>')
    (tmp_path / "b.html").write_text('<h1 id="top">B</h1><a href="a.html#top">a</a><img src="data:image/png;base64,">')
    assert list(site_links.problems(tmp_path)) == []
    (tmp_path / "a.html").write_text(
        '<a href="b.html#end"></a><a href="c.html"></a><script src="//x.org/y.js"></script>'
    )
    site_links.links.cache_clear()
    assert list(site_links.problems(tmp_path)) == [
        "a.html: no place b.html#end",
        "a.html: no file c.html",
        "a.html loads //x.org/y.js",
        "b.html: no place a.html#top",
    ]


def test_the_theme_loads_nothing_from_a_network(tmp_path: Path) -> None:
    if importlib.util.find_spec("material") is None:
        pytest.skip("the extra `site`, which builds the pages, is not installed; `make site` does this check too")
    whole = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text(whole.partition("validation:")[0].replace("build/", ""))
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.md").write_text("# A page\n\n```python\nprint()\n```\n")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict"], cwd=tmp_path, check=True, capture_output=True)
    lacking = {f"index.html: no file assets/{name}" for name in ("site.css", "iframe-worker.js")}
    assert set(site_links.problems(tmp_path / "site")) <= lacking and (tmp_path / "site" / "index.html").exists()
