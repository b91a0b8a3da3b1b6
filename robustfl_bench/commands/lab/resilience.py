"""The command ``robustfl-bench resilience``: rules on given updates, without training, as a table and a heat map."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.late import np
from robustfl_bench.commands.verb import Argument, command
from robustfl_bench.parts.aggregators.base import Aggregator
from robustfl_bench.parts.attacks.base import Attack
from robustfl_bench.parts.pre_aggregations.base import PreAggregation
from robustfl_bench.read.pages.pictures import heat
from robustfl_bench.read.pages.pictures.canvas import SUFFIXES, Figure, save
from robustfl_bench.read.tables import sheets
from robustfl_bench.read.tables.sheets import Printed, Sheet
from robustfl_bench.runner.config import compose, identity, options
from robustfl_bench.runner.config.request import made
from robustfl_bench.runner.store.writing import write_output

if TYPE_CHECKING:
    from robustfl_bench.lab.studies.inputs import Inputs
    from robustfl_bench.lab.studies.measure import Resilience

TEXTS = {".csv": "csv", ".txt": "text", ".md": "markdown", ".tex": "latex", ".html": "html", ".json": "json"}
HEADING = (
    "aggregator", "pre-aggregation", "f", "kappa", "any updates", "least", "proven", "lambda", "lambda proven", "bias",
    "breakdown", "ms",
)  # fmt: skip
FOOTNOTES = (
    "kappa: the worst |F - mean|^2 / spread^2 found with f attackers on these updates; any updates: on any",
    "least: no rule of the updates alone can go below; proven: upper bounds, where known, with proofs in bounds.py",
    "lambda: the worst |F - mean| / diameter found on any updates (Farhadkhani et al., ICML 2022)",
    "bias: |F - mean| / spread without attack; breakdown: most attackers with bounded output, of less than n / 2",
)


@dataclass(frozen=True)
class Row:
    """A rule by its options, and what was measured of it."""

    aggregator: str
    pre_aggregation: str
    result: Resilience

    @property
    def label(self) -> str:
        """The rule in a figure."""
        return self.aggregator if self.pre_aggregation == "none" else f"{self.pre_aggregation} + {self.aggregator}"


@dataclass(frozen=True)
class MeasuredRules:
    """Rules, and the updates on which they are measured."""

    overrides: Annotated[
        Sequence[str],
        Argument(
            "overrides of a run, with lists: aggregator=krum,coomed pre_aggregation=none,nnm num_byzantine=1,2,3; "
            "num_clients is n, attackers included",
            "OVERRIDE",
        ),
    ] = ()
    _: KW_ONLY
    inputs: Annotated[
        str,
        Argument(
            "normal: updates are drawn; round: updates of a training round (%(default)s)", choices=("normal", "round")
        ),
    ] = "normal"
    dimensions: Annotated[int, Argument("number of parameters of drawn updates (%(default)s)")] = 20
    mean: Annotated[float, Argument("length of the mean of drawn updates (%(default)s)")] = 1.0
    spread: Annotated[float, Argument("root mean square distance of drawn updates from their mean (%(default)s)")] = 1.0
    rounds: Annotated[
        int,
        Argument(
            "with --inputs round: rounds of training by plain averaging before the updates are taken (%(default)s)"
        ),
    ] = 0
    steps: Annotated[int, Argument("random steps of the search (%(default)s)")] = 200
    format: Annotated[str, Argument(choices=tuple(sheets.FORMATS))] = "text"
    output: Annotated[
        Sequence[Path],
        Argument(
            "also write the table (.csv, .txt, .md, .tex, .html, .json) or a heat map (.png, .pdf, .svg); repeatable",
            "FILE",
        ),
    ] = ()


def write(asked: MeasuredRules) -> None:
    """Measure rules on given updates, without training."""
    for path in asked.output:
        if path.suffix not in (*TEXTS, *SUFFIXES):
            raise ConfigError(f"--output must end in {', '.join([*TEXTS, *SUFFIXES])}, got {path}")
    try:
        name, rows = measured(asked)
    except MemoryError as error:
        raise ConfigError(f"the memory does not suffice; lower --dimensions or num_clients: {error}") from error
    print(written(name, rows, asked.format), end="")
    for path in asked.output:
        if path.suffix in SUFFIXES:
            save(heat_map(name, rows), path)
            continue
        write_output(path, written(name, rows, TEXTS[path.suffix]))


main = command(write, "robustfl-bench resilience")


def measured(asked: MeasuredRules) -> tuple[str, list[Row]]:
    """What the updates are, and a row for each combination of the overrides. Raises ConfigError and DataError."""
    from robustfl_bench.lab.studies.inputs import gaussian, of_round  # here, as they import torch
    from robustfl_bench.lab.studies.measure import resilience

    for name in ("dimensions", "spread", "steps"):
        if not 0 < getattr(asked, name) < math.inf:
            raise ConfigError(f"--{name} must be > 0, got {getattr(asked, name):g}")
    if asked.rounds < 0 or not 0 <= asked.mean < math.inf:
        raise ConfigError(f"--rounds and --mean must be >= 0, got {asked.rounds} and {asked.mean:g}")
    unread = ("rounds",) if asked.inputs == "normal" else ("dimensions", "mean", "spread")
    usual = MeasuredRules()
    if given := [name for name in unread if getattr(asked, name) != getattr(usual, name)]:
        raise ConfigError(f"--{given[0]} is not read with --inputs {asked.inputs}")
    if word := next((word for word in asked.overrides if word.startswith(("attack=", "attack."))), None):
        raise ConfigError(f"{word} is not read: every attack that crafts updates is tried")
    updates: dict[str, Inputs] = {}
    rows, names = [], dict[str, None]()
    for run in compose.sweep(asked.overrides):
        resolved = compose.resolve(run)
        f, n = resolved.config["num_byzantine"], resolved.config["num_clients"]
        if not 0 <= 2 * f < n:
            raise ConfigError(f"num_byzantine must be less than half of num_clients, got f={f}, n={n}")
        key = _data_of(resolved.config) if asked.inputs == "round" else f"{n} {resolved.config['seed']}"
        if key not in updates:
            updates[key] = (
                of_round(compose.resolve([*run, *HONEST]).config, asked.rounds)
                if asked.inputs == "round"
                else gaussian(n, asked.dimensions, asked.mean, asked.spread, resolved.config["seed"])
            )
        names[f"n = {n}; {updates[key].name}"] = None

        def build(count: int, run: Sequence[str] = run) -> tuple[Aggregator, PreAggregation | None]:
            config = identity.defining(compose.resolve([*run, f"num_byzantine={count}"]).config)
            return made("aggregator", config["aggregator"]), made("pre_aggregation", config["pre_aggregation"])

        result = resilience(build, updates[key], f, attacks(n, f), asked.steps, resolved.config["seed"])
        rows.append(Row(resolved.choices["aggregator"], resolved.choices["pre_aggregation"], result))
    return "; ".join(names), rows


HONEST = ("aggregator=average", "pre_aggregation=none", "attack=none", "num_byzantine=0")


def _data_of(config: Mapping[str, Any]) -> str:
    """What of a config the honest updates of a run depend on."""
    left = {"aggregator", "pre_aggregation", "num_byzantine", "num_byzantine_declared", "attack"}
    return json.dumps({name: value for name, value in config.items() if name not in left}, sort_keys=True)


@cache
def attacks(n: int, f: int) -> tuple[tuple[str, Attack], ...]:
    """The options of conf/attack that craft updates, by name."""
    crafting = []
    for name in options.names("attack"):
        clients = [f"num_clients={n}", f"num_byzantine={f}", "byzantine_placement=replace"]
        try:
            attack = made("attack", compose.resolve([f"attack={name}", *clients]).config["attack"])
        except ConfigError:  # of other data or models
            continue
        if attack.present and attack.crafts:
            crafting.append((name, attack))
    return tuple(crafting)


def written(name: str, rows: Sequence[Row], form: str) -> str:
    """The rows as text, Markdown, LaTeX, HTML or CSV."""
    if form == "csv":
        return _csv(name, rows)
    printed = []
    for row in rows:
        result = row.result
        values = (
            result.kappa, result.kappa_any, result.least, result.proven, result.lambda_any, result.lambda_proven,
            result.bias,
        )  # fmt: skip
        numbers = [_number(value) for value in values] if not result.reason else ["infeasible", *["-"] * 6]
        rest = ["-" if value is None else f"{value:.3g}" for value in (result.breakdown, result.milliseconds)]
        printed.append(
            [Printed(text) for text in (row.aggregator, row.pre_aggregation, str(result.f), *numbers, *rest)]
        )
    reasons = dict.fromkeys(f"infeasible: {row.label}: {row.result.reason}" for row in rows if row.result.reason)
    return sheets.FORMATS[form]([Sheet([f"Resilience: {name}"], HEADING, printed, 2, (*FOOTNOTES, *reasons))])


def _number(value: float | None) -> str:
    return "-" if value is None else "inf" if math.isinf(value) else f"{value:.3f}"


def _csv(name: str, rows: Sequence[Row]) -> str:
    from robustfl_bench.lab.studies.measure import Resilience

    lines = [["inputs", "aggregator", "pre_aggregation", *(field.name for field in fields(Resilience))]]
    for row in rows:
        values = asdict(row.result).values()
        numbers = ["" if value is None else f"{value:.6g}" if isinstance(value, float) else value for value in values]
        lines.append([name, row.aggregator, row.pre_aggregation, *numbers])
    return sheets.csv_text(lines)


def _rounded(number: float) -> str:
    """Two digits, also of large numbers."""
    return f"{float(f'{number:.2g}'):g}"


def heat_map(name: str, rows: Sequence[Row]) -> Figure:
    """A picture of kappa, of these updates and of any, by rule and number of attackers."""
    labels = list(dict.fromkeys(row.label for row in rows))
    counts = sorted({row.result.f for row in rows})
    panels = []
    for title, value in (("these updates", "kappa"), ("any updates", "kappa_any")):
        grid = np.full((len(labels), len(counts)), np.nan)
        for row in rows:
            number = getattr(row.result, value)
            grid[labels.index(row.label), counts.index(row.result.f)] = np.nan if number is None else number
        panels.append(heat.HeatPanel(title, labels, counts, grid))
    scale = heat.Scale("kappa (red: unbounded)", 0.01, 1000, _rounded, log=True, unbounded=True)
    return heat.draw(panels, scale, "attackers f", "", name)
