"""``robustfl-bench judge RULE``: a page on a rule, for somebody who must decide whether to take it."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from robustfl_bench.base.console import say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.making import Making, check_overrides, made_all
from robustfl_bench.commands.verb import Argument, again, command
from robustfl_bench.lab.studies import judge as studies
from robustfl_bench.read.tables import sheets
from robustfl_bench.runner.config import compose, identity, options
from robustfl_bench.runner.config.request import made
from robustfl_bench.runner.store.folders import DIVERGED, FINISHED
from robustfl_bench.runner.store.writing import write_output

TEXTS = {".md": "markdown", ".html": "html", ".txt": "text", ".tex": "latex", ".json": "json"}


@dataclass(frozen=True)
class JudgedRule:
    """A rule, its rivals, and where the page goes."""

    rule: Annotated[str, Argument("an option, or my_module:my_rule", "RULE")]
    overrides: Annotated[Sequence[str], Argument("of the rule, such as aggregator.stretch=2", "OVERRIDE")] = ()
    _: KW_ONLY
    against: Annotated[str, Argument("a third rival (%(default)s)", "RULE")] = "mkrum"
    quick: Annotated[bool, Argument("one partition, two attacks, three seeds")] = False
    seeds: Annotated[
        int | None, Argument(f"number of seeds ({studies.FULL.seeds}; {studies.QUICK.seeds} if quick)")
    ] = None
    making: Making
    output: Annotated[
        Sequence[Path],
        Argument(f"also write the page ({', '.join(TEXTS)}) or its numbers (.csv); repeatable", "FILE"),
    ] = ()
    format: Annotated[str, Argument(choices=tuple(sheets.FORMATS))] = "text"


def judge(asked: JudgedRule) -> None:
    """Judge a rule by its promises, its cost, and paired comparisons in cells of the arena: one page. Two to ten
    minutes of a core, one with --quick; the same command resumes.
    """
    if wrong := [path for path in asked.output if path.suffix not in (*TEXTS, ".csv")]:
        raise ConfigError(f"--output must end in {', '.join((*TEXTS, '.csv'))}, got {wrong[0]}")
    trial = studies.QUICK if asked.quick else studies.FULL
    trial = studies.Trial(trial.partitions, trial.attacks, trial.seeds if asked.seeds is None else asked.seeds)
    if trial.seeds < 2:
        raise ConfigError(f"--seeds must be >= 2, or no interval can be given; got {trial.seeds}")
    check_overrides("aggregator", asked.overrides)
    name = options.label("aggregator", asked.rule)
    rivals = list(dict.fromkeys([*studies.RIVALS, asked.against]))
    if {name, asked.rule} & {*rivals}:
        raise ConfigError(f"{name} would be compared with itself; name another rule, or another one --against")
    base = ["+experiment=arena/digits_rates", "num_byzantine=5", "lr=1"]
    setting = compose.resolve([*base, f"aggregator={asked.rule}", *asked.overrides]).config
    clients, f = setting["num_clients"], setting["num_byzantine"]
    rival = compose.resolve([*base, f"aggregator={asked.against}"]).config
    rule, other = (made("aggregator", identity.defining(config)["aggregator"]) for config in (setting, rival))
    rule.check(clients)
    other.check(clients)
    say(f"{name}: checking its promises")
    words = ["judge", asked.rule, *asked.overrides, "--against", asked.against, *["--quick"] * asked.quick]
    verdict = studies.Judgement(
        rule=name,
        rivals=rivals,
        trial=trial,
        promises=studies.promises(rule, f, clients),
        exempt=rule.exempt,
        cost=studies.cost(rule, clients),
        clients=clients,
        num_byzantine=f,
        accuracies=_accuracies(asked, trial, name, rivals),
        command=again(words, asked, ("seeds",)),
    )
    pages = studies.page(verdict)
    print(sheets.FORMATS[asked.format](pages), end="")
    for path in asked.output:
        content = studies.numbers(verdict) if path.suffix == ".csv" else sheets.FORMATS[TEXTS[path.suffix]](pages)
        write_output(path, content)


main = command(judge, "robustfl-bench judge")


def _accuracies(asked: JudgedRule, trial: studies.Trial, name: str, rivals: Sequence[str]) -> studies.Accuracies:
    """The accuracies of the rule and of its rivals, after making the runs that are missing."""
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for option, label, extra in ((asked.rule, name, asked.overrides), *((rival, rival, []) for rival in rivals)):
        extra = [*extra, f"results_dir={asked.making.results_dir}"]
        made_all(trial.rates([option], extra), asked.making, f"{label}: its learning rates")
        cells = compose.sweep(trial.cells([option], extra))
        ends = made_all(trial.cells([option], extra), asked.making, f"{label}: its runs")
        for cell, end in zip(cells, ends, strict=True):
            if end.status in (FINISHED, DIVERGED):
                config = dict(word.partition("=")[::2] for word in cell)
                by_seed = found.setdefault((label, config["partition"], config["attack"]), {})
                by_seed[config["seed"]] = end.value if end.status == FINISHED else studies.CHANCE
    return found
