"""``robustfl-bench decide PAPER [CLAIM]``: seeds for claims of a paper until intervals decide, or a budget ends."""

from __future__ import annotations

import time
from collections.abc import Sequence, Set
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated

from robustfl_bench.base.console import counted, say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.grouping import grouped
from robustfl_bench.commands.making import Making, made_cells
from robustfl_bench.commands.verb import Argument, command
from robustfl_bench.lab.agreement import claim_sheets
from robustfl_bench.lab.agreement.claim_sheets import hours
from robustfl_bench.lab.agreement.measured import MeasuredPaper, Open, WantedRun, scored
from robustfl_bench.read.runs import archive, commands
from robustfl_bench.read.runs.cost import HOUR
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.tables import sheets
from robustfl_bench.read.tables.claims import short
from robustfl_bench.read.tables.described import Paper, papers
from robustfl_bench.runner.config import options
from robustfl_bench.runner.store.folders import DIVERGED, FINISHED, INFEASIBLE


@dataclass(frozen=True)
class DecidedPaper:
    """A paper, those of its claims that are asked for, and the budget."""

    paper: Annotated[str, Argument("such as boba", "PAPER", tab=lambda **_: papers())]
    words: Annotated[
        Sequence[str],
        Argument(
            "only claims of these names; an override of every cell of the tables, such as scale=quick",
            "CLAIM or OVERRIDE",
        ),
    ] = ()
    _: KW_ONLY
    table: Annotated[
        str | None,
        Argument(
            "only claims about this table, such as table2_mnist, or this block of one, such as 'table4 / mlp'", "NAME"
        ),
    ] = None
    hours: Annotated[
        float, Argument("make no look whose runs, in one process, would end after H hours (%(default)g)", "H")
    ] = 1.0
    dry_run: Annotated[bool, Argument("say what each open claim lacks, and make nothing")] = False
    verbose: Annotated[bool, Argument("with --dry-run: the command of each cell", flags=("-v", "--verbose"))] = False
    making: Making

    @property
    def overrides(self) -> list[str]:
        """The overrides of every cell."""
        return [word for word in self.words if "=" in word and not word.startswith("dry_run=")]


def decide(asked: DecidedPaper) -> None:
    """Give claims of a paper seeds until their intervals decide, at the looks that the paper's file plans, the
    cheapest first, or until the budget ends; the same command resumes.
    """
    check_name(asked.paper, papers(), "paper")
    if not asked.hours > 0:
        raise ConfigError(f"--hours must be > 0, got {asked.hours:g}")
    paper = _asked(papers()[asked.paper], asked)
    dry_run = next((word.partition("=")[2] for word in reversed(asked.words) if word.startswith("dry_run=")), "")
    if asked.dry_run or options.parse(dry_run or "false") is True:
        _preview(_measured(paper, asked).open_claims, asked)
        return
    began, made = time.monotonic(), set[WantedRun]()
    while True:
        measured = _measured(paper, asked)
        left = asked.hours * HOUR - (time.monotonic() - began)
        claims = _cheapest_first(measured.open_claims)
        feasible = (claim for claim in claims if not _hindrance(claim, made, left))
        if (claim := next(feasible, None)) is None or (step := claim.next) is None:
            break
        cells = [(*run.overrides, *asked.overrides, f"seed={run.seed}", f"results_dir={asked.making.results_dir}")
                 for run in step.runs]  # fmt: skip
        look = f"{_about(claim)}, look at {step.look} seeds"
        say(f"{look}: {counted(len(step.runs), 'run')}, {hours(step.cost.hours)} h of one core ({step.cost.source})")
        made_cells(cells, asked.making, look, (FINISHED, DIVERGED, INFEASIBLE))
        made |= set(step.runs)
    for claim in claims:
        say(f"{_about(claim)}: {_hindrance(claim, made, left)}")
    print(sheets.FORMATS["text"]([claim_sheets.claims(measured), *claim_sheets.deciding(measured)]), end="")


main = command(decide, "robustfl-bench decide")


def _asked(paper: Paper, asked: DecidedPaper) -> Paper:
    """The paper with only the claims that are asked for, and their tables. Raises ConfigError if there are none."""
    names = [word for word in asked.words if "=" not in word]
    for name in names:
        check_name(name, {claim.name for claim in paper.claims}, "claim")
    if asked.table is not None:
        check_name(asked.table, [*map(short, paper.tables), *(claim.about for claim in paper.claims)], "table")
    claims = tuple(claim for claim in paper.claims if (not names or claim.name in names)
                   and asked.table in (None, short(claim.table), claim.about))  # fmt: skip
    if not claims:
        raise ConfigError(f"{asked.paper}: no such claim about {asked.table}")
    about = {claim.table for claim in claims}
    return replace(paper, claims=claims, tables={name: paper.tables[name] for name in paper.tables if name in about})


def _measured(paper: Paper, asked: DecidedPaper) -> MeasuredPaper:
    """The paper, measured by the runs of the results folder and by those that come with the package."""
    return scored({asked.paper: paper}, archive.with_kept(asked.making.results_dir), asked.overrides)[0]


def _hindrance(claim: Open, made: Set[WantedRun], left: float) -> str:
    """Why a claim gets no further look: it has none, this command ``made`` its runs, or it does not fit into the
    seconds that are left, which a look of unknown length does as long as there are any; empty if nothing hinders."""
    if (step := claim.next) is None:
        return claim.stands
    if made >= set(step.runs):
        return f"its runs do not have all numbers; robustfl-results table {claim.verdict.claim.table} says why"
    if left <= 0 or step.cost.seconds > left:
        return (f"the look at {step.look} seeds takes {hours(step.cost.hours)} h, the budget has "
                f"{hours(max(left, 0) / HOUR)} h left: --hours gives more")  # fmt: skip
    return ""


def _cheapest_first(claims: Sequence[Open]) -> list[Open]:
    """The claims by the length of their next looks, unknown ones last; those without one begin."""
    return sorted(claims, key=lambda claim: claim.wait)


def _preview(claims: Sequence[Open], asked: DecidedPaper) -> None:
    """Print what each claim lacks, and the command that makes it."""
    total, folder = 0.0, [] if asked.making.results_dir == "results" else ["--results-dir", asked.making.results_dir]
    for claim in _cheapest_first(claims):
        if (step := claim.next) is None:
            print(f"{_about(claim)}: {claim.stands}")
            continue
        print(f"{_about(claim)}: the look at {step.look} seeds lacks {len(step.runs)} runs, "
              f"{hours(step.cost.hours)} h of one core ({step.cost.source})")  # fmt: skip
        total += step.cost.hours
        print(f"    {claim_sheets.command(claim, asked.paper, asked.overrides, folder)}")
        if asked.verbose:
            for cell, wanted in grouped((run.overrides, str(run.seed)) for run in step.runs).items():
                print(f"    {commands.run((*cell, *asked.overrides), wanted, asked.making.results_dir)}")
    looks = f"their next looks, each alone, take {hours(total)} h of one core"
    print(f"open claims: {len(claims)}; {looks if any(claim.next for claim in claims) else 'none has a next look'}")


def _about(claim: Open) -> str:
    return f"{claim.verdict.claim.name} / {claim.verdict.claim.about}"
