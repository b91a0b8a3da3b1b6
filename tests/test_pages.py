"""Pages that people read: how many and how long they are, and what their first screen asks of a reader."""

import os
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from robustfl_bench.commands import results
from robustfl_bench.commands.entry import PROGRAMS
from robustfl_bench.runner.config import compose, options

ROOT = Path(__file__).parents[1]
APART = (".github/*", "CODE_OF_CONDUCT.md", "SECURITY.md", "AGENTS.md", "robustfl_bench/parts/*/*.md")
"""Forms of the host, a licence, and what programs read."""
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for folder in ("", "conf", "results", "robustfl_bench", "scripts")
    for path in sorted((ROOT / folder).glob("**/*.md" if folder else "*.md"))
    if not any(path.match(f"{ROOT}/{apart}") for apart in APART) and not {"runs", "demo"} & {*path.parts}
}
WORD = re.compile(r"\S*\w\S*")
SENTENCES = re.compile(r"(?<=[.!?:])[\"')*_]*\s+(?=[\"'(*_`\[]*[A-Z0-9`])")
GLOSSARY = (ROOT / "results" / "GLOSSARY.md").read_text(encoding="utf-8")
OURS = ("panel", "cell", "track", "book", "stand-in", "division", "kappa", "tied", "inside", "infeasible")
"""Words that mean something else elsewhere, or nothing: the glossary has them."""


SCREEN = 40
"""Lines."""
COMMON = {"ACM", "CPU", "CSV", "JSON", "LICENSE", "YAML"}


def screen(text: str) -> str:
    """What a first screen holds: all above the first heading below the title."""
    above = re.split(r"^## ", text, maxsplit=1, flags=re.MULTILINE)[0]
    return "\n".join(above.splitlines()[1:SCREEN])


def paragraphs(text: str) -> list[str]:
    """The paragraphs and items of a text, without blocks, tables, pictures and comments."""
    text = re.sub(r"^```.*?(?:^```|\Z)|<!--.*?-->|^[|!].*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n|^(?=- )", text, flags=re.MULTILINE) if part.strip()]


def words(text: str) -> int:
    return len(WORD.findall(text))


def test_pages_are_few_and_short() -> None:
    assert len(PAGES) <= 25, [*PAGES]
    assert sum(len(text.split()) for text in PAGES.values()) <= 45_000


@pytest.mark.parametrize("name", PAGES)
def test_a_first_screen_can_be_read(name: str) -> None:
    """A finding or a purpose in two or three lines, something to see or to type, no long sentence, no unknown word."""
    text = PAGES[name]
    shown = screen(text)
    first, *_ = prose = paragraphs(shown)
    assert text.startswith("# ") and words(text.splitlines()[0]) <= 12
    assert words(first) <= 75, first
    assert sum(map(words, prose)) <= 260
    assert re.search(r"^(```|!\[|\| )", "\n".join(text.splitlines()[:SCREEN]), re.MULTILINE), "no picture, no command"
    sentences = [sentence for part in prose for sentence in SENTENCES.split(part)]
    assert [sentence for sentence in sentences if words(sentence) > 30] == []
    if "GLOSSARY.md" not in shown and name != "results/GLOSSARY.md":
        assert [word for word in OURS if re.search(rf"(?<![*`-])\b{word}s?\b(?![*`-])", " ".join(prose))] == []
    assert [short for short in abbreviations(" ".join(prose)) if not explained(short, shown)] == []


def abbreviations(prose: str) -> set[str]:
    """Words of capitals, with what a hyphen joins to them."""
    prose = re.sub(r"`[^`]*`|\[[^\]]*\]", "", prose)
    return {
        short
        for short in re.findall(r"\b(?:[A-Z][a-z]+-)?[A-Z]{3,}(?:-\d+)?\b", prose)
        if not re.fullmatch("[IVX]+", short)
    } - COMMON


@cache
def explained_anywhere() -> str:
    """The glossary's words, the titles of pages, and the options that `--list` describes."""
    groups = ("aggregator", "attack", "dataset", "model")
    of_options = [name.replace("_", "-") for group in groups for name in options.names(group)]
    titles = [text.splitlines()[0] for text in PAGES.values()]
    return " ".join([*re.findall(r"^\| (.+?) \|", GLOSSARY, re.MULTILINE), *of_options, *titles]).lower()


def explained(short: str, shown: str) -> bool:
    """Whether an abbreviation is explained somewhere, or written out in front of its brackets."""
    words = explained_anywhere()
    return short.lower() in words or short.lower().replace("-", "") in words or f"({short}" in shown


def test_the_pages_for_programs_name_files_targets_and_commands_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    agents, llms = ((ROOT / name).read_text(encoding="utf-8") for name in ("AGENTS.md", "llms.txt"))
    assert words(agents) <= 350 and words(llms) <= 350, "half a page each"
    links = re.findall(r"\]\(([^)]+)\)", agents + llms)
    assert len(links) > 15 and [link for link in links if not (ROOT / link).is_file()] == []
    places = re.findall(r"`((?:robustfl_bench|conf|tests|scripts|results)/[\w/.]*)`", agents)
    assert len(places) > 5 and [place for place in places if not (ROOT / place).exists()] == []
    (block,) = re.findall(r"^```\n(.*?)^```", agents, re.DOTALL | re.MULTILINE)
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert [target for program, target, *_ in commands if program == "make" and target not in targets] == []
    called = [(Path(program).name, rest) for program, *rest in commands if program != "make"]
    (run,) = (rest for program, rest in called if program == "robustfl-bench" and rest[0] != "--list")
    assert compose.resolve(run).config["attack"]
    for program, (verb, *rest) in called:
        if program == "robustfl-results":
            with pytest.raises(SystemExit, match="0"):
                results.main([verb, "--help"])
            printed = capsys.readouterr().out
            assert [word for word in rest if word.startswith("--") and word not in printed] == [], verb


def test_llms_txt_has_its_format() -> None:
    """A title, a summary, then sections of links, each with what is behind it (llmstxt.org)."""
    title, summary, about, *sections = (ROOT / "llms.txt").read_text(encoding="utf-8").strip().split("\n\n")
    assert re.fullmatch("# .+", title) and re.fullmatch("> .+", summary) and not about.startswith(("#", "-"))
    for heading, items in zip(sections[::2], sections[1::2], strict=True):
        assert re.fullmatch("## .+", heading)
        assert all(re.fullmatch(r"- \[[^\]]+\]\([^)]+\): .+", item) for item in items.splitlines())
    programs = re.findall(r"`(robustfl-\w+)`", about)
    assert programs == [*PROGRAMS]


def test_links_to_headings_lead_to_headings() -> None:
    def anchors(text: str) -> set[str]:
        titles = re.findall(
            r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
        )
        return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}

    found = [(name, path, anchor) for name, text in PAGES.items()
             for path, anchor in re.findall(r"\]\(([^)\s#]*)#([^)\s]+)\)", text) if "://" not in path]  # fmt: skip
    targets = [
        (name, os.path.normpath(Path(name).parent / path) if path else name, anchor) for name, path, anchor in found
    ]
    assert len(found) > 15
    assert [where for where in targets if where[2] not in anchors(PAGES[where[1]])] == []
