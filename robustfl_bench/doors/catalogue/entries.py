"""The options of a config group, read from their files and docstrings, and the meaning of each key, the string below a
field of the class that the option builds; nothing is built."""

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from robustfl_bench.base import public
from robustfl_bench.base.errors import ConfigError, near
from robustfl_bench.base.fields import Option, options_of
from robustfl_bench.base.trees import flatten
from robustfl_bench.runner.config import options, targets, words
from robustfl_bench.runner.config.names import name_of
from robustfl_bench.runner.config.options import CONF, HERE, Search
from robustfl_bench.train.parts import GROUPS

MEASURED_GROUPS = ("aggregator", "attack", "pre_aggregation", "partition", "model")
"""Groups whose options have measured needs and cost (see ``measures.py``), which requires torch."""

GROUPS_FILE = Path(__file__).with_name("groups.yaml")
_SENTENCE = re.compile(r"(?<!\bal)(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<![ .])\.(?=\s|$)")
_BRACKETS = re.compile(r"\(((?:[^()]|\([^()]*\))*)\)")
_DATED = re.compile(r"\b(?:19|20)\d\d\b|\barXiv\b|https?://|Library\b|^(?:ours|folklore)\b")
_ARXIV = re.compile(r"\barXiv (\d{4}\.\d{5})\b")
_URL = re.compile(r",? *(https?://[^\s,;)]+?)(?=[.]?(?:[\s,;)]|$))")


@dataclass(frozen=True)
class Group:
    """A config group: the question that it answers, its number of options, and its default in words."""

    name: str
    question: str
    count: int
    default: str


@dataclass(frozen=True)
class CatalogueEntry:
    """An option of a config group.

    ``target`` is the class that the option builds, empty if it builds nothing. ``doc`` is the docstring of that class,
    else the comment of the file. ``source`` is the publication, ``url`` its address. ``parts`` are the options within
    the option, by key. ``same_as`` names the option with the same class from which it differs by the settings
    ``differs``; if there are none, the option is an alias.
    """

    group: str
    name: str
    file: Path
    target: str
    doc: str
    remark: str
    source: str
    url: str
    content: Mapping[str, Any] = field(repr=False)
    parts: Mapping[str, str]
    same_as: str = ""
    differs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Its name for readers."""
        return name_of(self.file)

    @property
    def outside(self) -> bool:
        """Whether the option comes from a user's folder."""
        return not self.file.is_relative_to(CONF)

    @property
    def citation(self) -> str:
        """The publication in Markdown, linked if its address is known."""
        return f"[{self.source}]({self.url})" if self.url else self.source

    @property
    def summary(self) -> str:
        """One line that says what the option computes."""
        if not self.same_as:
            first = " ".join(self.doc.split("\n\n")[0].split())
            end = _SENTENCE.search(first) if self.target else None
            sentence = first[: end.end()] if end else first
            parts = ", ".join(f"{key}={name}" for key, name in self.parts.items())
            return f"{sentence.removesuffix('.')} ({parts})." if parts else sentence
        if not self.differs:
            return f"Alias of {self.same_as}."
        changed = ", ".join(f"{key}={words.written(value)}" for key, value in self.differs.items())
        return f"{self.same_as} with {changed}{f' ({self.remark})' if self.remark else ''}."


def files(entry: CatalogueEntry, search: Search = HERE) -> list[Path]:
    """The file of an option, then the files of the options that it builds on."""
    listed = options.load(f"{entry.group}/{entry.name}", search).get("defaults", [])
    included = (options.find(f"{entry.group}/{part}", search) for part in listed if isinstance(part, str))
    return [entry.file, *filter(None, included)]


def groups(search: Search = HERE) -> list[Group]:
    """All config groups, in the order of ``groups.yaml``, with their current numbers of options."""
    defaults: dict[str, Any] = {}
    for default in options.load("config")["defaults"]:
        defaults |= default if isinstance(default, dict) else {}
    return [
        Group(
            name, about["question"], len(options.names(name, search)), about.get("default", f"`{defaults.get(name)}`")
        )
        for name, about in options.read(GROUPS_FILE, absent=f"no file {GROUPS_FILE}").items()
    ]


def entries(group: str, search: Search = HERE) -> list[CatalogueEntry]:
    """The options of a group, in alphabetical order."""
    of_group = [_entry(group, name, search) for name in options.names(group, search)]
    originals: dict[str, CatalogueEntry] = {}
    for entry in sorted(
        of_group, key=lambda entry: entry.name != _module_of(entry.target).rpartition(".")[2]
    ):  # named like modules first
        originals.setdefault(entry.target, entry)
    return [_beside(entry, originals[entry.target]) for entry in of_group]


def option(group: str, name: str, search: Search = HERE) -> CatalogueEntry:
    """The option of a group with this name; raises ConfigError if there is none."""
    known = options.names(group, search)
    if name not in known:
        raise ConfigError(f"unknown {group} {name!r}{near(name, known)}; robustfl-bench --list {group} shows all")
    return next(entry for entry in entries(group, search) if entry.name == name)


def _beside(entry: CatalogueEntry, original: CatalogueEntry) -> CatalogueEntry:
    """The entry, with ``same_as`` and ``differs`` if it is another form of the original."""
    if entry is original or not entry.target or entry.parts != original.parts:
        return entry
    ours, theirs = dict(flatten(entry.content)), dict(flatten(original.content))
    differs = {key: value for key, value in ours.items() if key not in theirs or theirs[key] != value}
    return CatalogueEntry(**vars(entry) | {"same_as": original.name, "differs": differs})


def _entry(group: str, name: str, search: Search) -> CatalogueEntry:
    file = options.find(f"{group}/{name}", search)
    assert file is not None
    lines = [
        line
        for line in file.read_text(encoding="utf-8").splitlines()
        if not line.startswith(("# @package ", "# name: "))
    ]
    remark = re.search(r"\s{2,}\((.*)\)$", lines[0])
    comment = []
    for line in lines[1:]:
        if not line.startswith("# "):
            break
        comment.append(line.removeprefix("# "))
    comment_text = " ".join(comment) or (remark[1] if remark else "")
    if group not in GROUPS:
        return CatalogueEntry(group, name, file, "", comment_text, "", "", "", {}, {})
    content = options.option(group, name, (), search)
    listed = [part for part in options.load(f"{group}/{name}", search).get("defaults", []) if isinstance(part, dict)]
    parts = {place.partition("@")[2]: str(chosen) for part in listed for place, chosen in part.items()}
    target = str(content.get("_target_", ""))
    doc, module_doc = _docstrings(target) if target else (f"{comment_text[:1].upper()}{comment_text[1:]}.", "")
    source, url = _cited(module_doc)
    return CatalogueEntry(group, name, file, target, doc, remark[1] if remark else "", source, url, content, parts)


def _module_of(target: str) -> str:
    return public.home(target) or target.rpartition(".")[0]


@cache
def _docstrings(target: str) -> tuple[str, str]:
    """The docstrings of a class and of its module, read from the source."""
    name = target.rpartition(".")[2]
    try:
        spec = find_spec(_module_of(target))
        tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else "")
    except (ImportError, OSError, SyntaxError, ValueError):
        tree = ast.Module([], [])
    docs = [ast.get_docstring(node) for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    return next(filter(None, docs), f"No docstring of {target} can be read."), ast.get_docstring(tree) or ""


def _cited(doc: str) -> tuple[str, str]:
    """The publication that a module's docstring cites, and its address; empty strings if there is none.

    The publication is in brackets in the first paragraph, or else is the second paragraph, which may also give only the
    address. A publication without an address has that of its arXiv number. An address without a publication is returned
    as the publication.
    """
    first, second, *_ = [*(" ".join(paragraph.split()) for paragraph in doc.split("\n\n")), "", ""]
    dated = [citation for citation in _BRACKETS.findall(first) if _DATED.search(citation)]
    text = "; ".join(dated) or (second if _DATED.search(second) else "")
    citation = _URL.search(text) or _URL.search(second)
    text, address = _URL.sub("", text).strip(" ."), citation[1] if citation else ""
    if not address and (number := _ARXIV.search(text)):
        address = f"https://arxiv.org/abs/{number[1]}"
    return (text, address) if text else (address, "")


_KEY = re.compile(r"(?P<code>(?P<nested>  - /\w+@)?(?P<name>[a-z]\w*): [^#]*[^# ])(?: +# ?(?P<comment>.*))?")
_CONTINUED = re.compile(r" {8,}# ?(?P<comment>.*)")
_ALIGNED = 45  # columns; the comments of longer lines are in no column with others


@dataclass(frozen=True)
class Key:
    """A field of a class: its ``meaning``, the values that it takes, and its default, MISSING if it has none."""

    name: str
    meaning: str
    option: Option
    default: Any

    @property
    def text(self) -> str:
        """The meaning and the choices in one line, as in a comment."""
        words = [
            f"{word}: {note}" if word == "null" else f"{word} ({note})" if note else word
            for word, note in self.option.choices.items()
        ]
        return f"{self.meaning}: {' | '.join(words)}" if words else self.meaning

    @property
    def full_text(self) -> str:
        """The text, after the range of a number."""
        return self.text if self.option.choices or not self.option.allowed else f"{self.option.allowed}; {self.text}"


@cache
def keys_of(cls: type) -> Mapping[str, Key]:
    """The fields of a class that a config can set, by name."""
    meanings = {name: text for base in reversed(cls.__mro__) for name, text in _strings_below(base).items()}
    described = {name: option for name, (option, _) in options_of(cls).items()}
    found = {}
    for each in fields(cls) if is_dataclass(cls) else ():
        if each.init:
            default = each.default if each.default_factory is MISSING else each.default_factory()
            meaning, option = meanings.get(each.name, ""), described.get(each.name, Option())
            found[each.name] = Key(each.name, meaning, option, default)
    return MappingProxyType(found)


@cache
def _strings_below(cls: type) -> Mapping[str, str]:
    """The strings that stand below the fields of a class, in one line each, by field; none without its source."""
    if "__annotations__" not in vars(cls):
        return {}
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for line, below in zip(tree.body, tree.body[1:], strict=False):
        text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and isinstance(text, str):
            found[line.target.id] = " ".join(text.split())
    return found


def keys_at(group: str, name: str, search: Search = HERE) -> Mapping[str, Key]:
    """The keys of an option in conf/; none if its class cannot be imported."""
    try:
        return keys_of(targets.found_part(group, options.option(group, name, (), search)["_target_"]))
    except (ConfigError, KeyError):
        return {}


def commented(text: str, meanings: Mapping[str, str], group: str = "", width: int = 120) -> str:
    """YAML of a config in which each key that has a meaning is followed by it as a comment, at most ``width`` wide.

    These are the keys at the beginning of a line, and those in the defaults list of an option of ``group``, such as
    ``- /aggregator@rule: krum``. Lines without such a key stay as they are.
    """
    lines: list[str] = []
    block: list[tuple[str, str]] = []
    for line in [*_joined(text), ""]:
        key = _KEY.fullmatch(line)
        if key and (meaning := meanings.get(key["name"])):
            below = f"; its keys are under {group}.{key['name']}" if key["nested"] else ""
            block.append((key["code"], meaning + below))
        else:
            lines += [*_aligned(block, width), line]
            block = []
    return "\n".join(lines)


def _joined(text: str) -> list[str]:
    """The lines of YAML; a comment that is continued below a line is put behind it."""
    lines: list[str] = []
    for line in text.splitlines():
        if lines and (continued := _CONTINUED.fullmatch(line)):
            lines[-1] += f" {continued['comment']}"
        else:
            lines.append(line)
    return lines


def _aligned(block: list[tuple[str, str]], width: int) -> list[str]:
    """Lines of code, each with its comment; all comments begin in one column."""
    column = max((len(code) for code, _ in block if len(code) <= _ALIGNED), default=0)
    lines = []
    for code, comment in block:
        begin = f"{code:{column}}   # "
        margin = f"{'':{len(begin) - 2}}# "
        lines += textwrap.wrap(comment, width, initial_indent=begin, subsequent_indent=margin, break_on_hyphens=False)
    return lines
