"""The verbs of all commands as functions of Python: ``rb.command("results table", "boba/table2_mnist")``."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError, near
from robustfl_bench.base.late import pd
from robustfl_bench.commands import entry
from robustfl_bench.commands.verb import Action, arguments_of, called, name_of, parser_alone, trusting

FORMATS = ("csv", "json")
"""The formats that a verb is asked for, the first that it has, where the caller names none."""


class Output(str):
    """What a verb prints; a notebook shows Markdown as a page."""

    is_page = False

    def _repr_markdown_(self) -> str:
        return str(self) if self.is_page else f"```\n{self}\n```"


def verbs() -> dict[str, Action]:
    """Every verb by its words, such as ``results table`` or ``bench judge``; imports them."""
    found: dict[str, Action] = {}
    for program in ("results", "data"):
        found |= {f"{program} {name_of(verb)}": verb for verb in _verbs(f"robustfl_bench.commands.{program}")}
    for word, module in {**entry.VERBS, **entry.LABORATORY}.items():
        several = _verbs(module)
        for verb in several if word != "completion" else ():  # which is for shells
            found[f"bench {word} {name_of(verb)}" if len(several) > 1 else f"bench {word}"] = verb
    return found


def _verbs(module: str) -> Sequence[Action]:
    found = import_module(module)
    return tuple(getattr(found, "VERBS", ())) or tuple(getattr(found.main, "verbs", ()))


def _named(name: str) -> tuple[str, Action]:
    """The full words of a verb, and the verb. Raises ConfigError for an unknown one."""
    word = name.removeprefix("results ")
    if word in entry.QUICK:
        return f"results {word}", _verbs(entry.QUICK[word])[0]
    known = verbs()
    full = next((place for place in (name, f"results {name}", f"bench {name}") if place in known), None)
    if full is None:
        alike = near(name, [*known, *(place.partition(" ")[2] for place in known)])
        raise ConfigError(f"no verb {name!r}{alike}; there are: {', '.join(known)}")
    return full, known[full]


def command(name: str, *words: object, **options: Any) -> Any:
    """What a verb says: ``command("results table", "boba/table2_mnist")`` is ``robustfl-results table
    boba/table2_mnist``.

        >>> import robustfl_bench as rb
        >>> rb.command("data list")[0]["name"]
        'ag_news'

    ``words`` are its words, ``options`` its options with underscores: ``results_dir="there"``, ``where=["seed=0"]``,
    ``quick=True``. Without a ``format``, a table comes as one of pandas, and what programs read as Python's values; all
    else is text, as it is printed. Raises ConfigError, DataError, and what the verb raises.
    """
    full, verb = _named(name)
    program = f"robustfl-{full}"
    taken = arguments_of(verb)
    given = {key: value for key, value in options.items() if value is not None and value is not False}
    if unknown := [key for key in given if key not in taken and key != "allow"]:
        raise ConfigError(f"{program} has no {unknown[0]!r}{near(unknown[0], taken)}")
    choices = taken["format"].choices if "format" in taken else None
    form = given.get("format") or next((form for form in FORMATS if form in (choices or ())), None)
    if form is not None:
        given["format"] = form
    allowed = given.pop("allow", ())
    argv = [str(word) for word in words]
    for key, value in given.items():
        flag = (taken[key].flags or (f"--{key.replace('_', '-')}",))[0]
        for item in value if isinstance(value, list | tuple) else [value]:
            argv += [flag] if item is True else [flag, str(item)]
    asked = _parsed(lambda: parser_alone(verb, program).parse_args(argv))
    printed = io.StringIO()
    with redirect_stdout(printed), trusting(asked, [allowed] if isinstance(allowed, str) else allowed):
        called(verb, asked)
    if "format" not in options:
        return _read(printed.getvalue(), form)
    page = Output(printed.getvalue())
    page.is_page = form in ("markdown", "md")
    return page


def _parsed(parse: Callable[[], Any]) -> Any:
    """The arguments; raises ConfigError with the parser's line."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return parse()
    except SystemExit:
        raise ConfigError(said.getvalue().strip()) from None


def _read(text: str, form: str | None) -> Any:
    """What is printed in a format that programs read."""
    if form == "json":
        return json.loads(text)
    if form != "csv":
        return Output(text)
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    wide = len(rows) > 1 and all(len(row) == len(rows[0]) for row in rows)
    return pd.read_csv(io.StringIO(text)) if wide else Output(text)


def table(name: str | None = None, *overrides: str, **options: Any) -> Any:
    """A paper's table beside its published numbers, or a pivot of any sweep, as ``robustfl-results table``."""
    return command("results table", *([] if name is None else [name]), *overrides, **options)


def recommend(
    partition: str, attackers: float | str, server_data: bool | str = False, **options: Any
) -> Mapping[str, Any]:
    """Which rule to use where data lie so at the clients, against a share of attackers, as ``robustfl-results
    recommend``: its JSON. Raises ConfigError."""
    if "format" in options:
        raise ConfigError("recommend has no 'format', as it returns values; rb.command('results recommend') takes one")
    if server_data not in (True, False, "yes", "no"):
        raise ConfigError(f"server_data takes True or False, got {server_data!r}")
    reads: dict[str, Any] = {"server_data": "yes" if server_data in (True, "yes") else "no", **options}
    printed = command("results recommend", partition=partition, attackers=attackers, format="json", **reads)
    advice: Mapping[str, Any] = json.loads(printed)
    return advice


def judge(rule: Any, *overrides: str, **options: Any) -> Any:
    """A rule by its promises, its cost and paired comparisons, as ``robustfl-bench judge``: an option, ``module:Rule``,
    or a class or function of a module. Raises ConfigError for anything else."""
    from robustfl_bench.doors.api import objects
    from robustfl_bench.runner.config import outside

    if not isinstance(rule, str | type) and not hasattr(rule, "__qualname__"):
        given = repr(rule) if isinstance(rule, int | float | None) else f"a {type(rule).__name__}"
        raise ConfigError(f"judge takes the name of an option, module:Rule, or a class or function, got {given}; "
                          "fields are set by words: rb.judge('mkrum', 'aggregator.num_selected=2')")  # fmt: skip
    word = rule if isinstance(rule, str) else outside.word(objects.target_of(rule))
    return command("bench judge", word, *overrides, **{"format": "markdown", **options})


def compose(*overrides: str, config_dir: str | Path | None = None, **settings: Any) -> dict[str, Any]:
    """The config of the run of these words and settings, resolved, as ``robustfl-bench --cfg job --resolve`` shows it;
    ``robustfl_bench.run`` takes it. Raises ConfigError."""
    from robustfl_bench.doors.api import objects
    from robustfl_bench.runner.config import request

    config, _ = request.composed([*overrides, *objects.overrides(settings)], config_dir)
    return dict(config)
