"""``robustfl-bench judge RULE``: a page on a rule, for somebody who must decide whether to take it."""

import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from robustfl_bench.base.console import Parser, add_jobs, say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.making import check_overrides, made_all
from robustfl_bench.commands.verb import obeyed
from robustfl_bench.lab.studies import judge, judgement
from robustfl_bench.read.tables import sheets
from robustfl_bench.runner.config import compose, identity, options
from robustfl_bench.runner.experiment.plan import made
from robustfl_bench.runner.store.folders import DIVERGED, FINISHED
from robustfl_bench.runner.store.writing import write_output

TEXTS = {".md": "markdown", ".html": "html", ".txt": "text", ".tex": "latex", ".json": "json"}


def main() -> int:
    """Console entry point; returns its exit code."""
    parser = Parser(
        prog="robustfl-bench judge",
        description="Judge a rule by its promises, its cost, and paired comparisons in cells of the arena: one page. "
        "Two to ten minutes of a core, one with --quick; the same command resumes.",
    )
    parser.add_argument("rule", metavar="RULE", help="an option, or my_module:my_rule")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="of the rule, such as aggregator.stretch=2")
    parser.add_argument("--against", default="mkrum", metavar="RULE", help="a third rival (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="one partition, two attacks, three seeds")
    parser.add_argument("--seeds", type=int, help=f"number of seeds ({judge.FULL.seeds}; {judge.QUICK.seeds} if quick)")
    parser.add_argument("--results-dir", default="results", metavar="FOLDER", help="of the runs (%(default)s)")
    add_jobs(parser)
    parser.add_argument("--output", action="append", default=[], metavar="FILE",
                        help=f"also write the page ({', '.join(TEXTS)}) or its numbers (.csv); repeatable")  # fmt: skip
    parser.add_argument("--format", choices=sheets.FORMATS, default="text")
    return obeyed(_judge, parser.parse_args(sys.argv[1:]))


def _judge(asked: Namespace) -> int:
    if wrong := [path for path in asked.output if Path(path).suffix not in (*TEXTS, ".csv")]:
        raise ConfigError(f"--output must end in {', '.join((*TEXTS, '.csv'))}, got {wrong[0]}")
    trial = judge.QUICK if asked.quick else judge.FULL
    trial = judge.Trial(trial.partitions, trial.attacks, trial.seeds if asked.seeds is None else asked.seeds)
    if trial.seeds < 2:
        raise ConfigError(f"--seeds must be >= 2, or no interval can be given; got {trial.seeds}")
    check_overrides("aggregator", asked.overrides)
    name = options.label("aggregator", asked.rule)
    rivals = list(dict.fromkeys([*judge.RIVALS, asked.against]))
    if name in rivals:
        raise ConfigError(f"{name} would be compared with itself; name another rule, or another one --against")
    base = ["+experiment=arena/digits_rates", "num_byzantine=5", "lr=1"]
    setting = compose.resolve([*base, f"aggregator={asked.rule}", *asked.overrides]).config
    clients, f = setting["num_clients"], setting["num_byzantine"]
    rival = compose.resolve([*base, f"aggregator={asked.against}"]).config
    rule, other = (made("aggregator", identity.defining(config)["aggregator"]) for config in (setting, rival))
    rule.check(clients)
    other.check(clients)
    say(f"{name}: checking its promises")
    verdict = judgement.Judgement(
        rule=name,
        rivals=rivals,
        trial=trial,
        promises=judge.promises(rule, f, clients),
        exempt=rule.exempt,
        cost=judge.cost(rule, clients),
        clients=clients,
        num_byzantine=f,
        accuracies=_accuracies(asked, trial, name, rivals),
        command=_command(asked),
    )
    pages = judgement.page(verdict)
    print(sheets.FORMATS[asked.format](pages), end="")
    for path in map(Path, asked.output):
        content = judgement.numbers(verdict) if path.suffix == ".csv" else sheets.FORMATS[TEXTS[path.suffix]](pages)
        write_output(path, content)
    return 0


def _command(asked: Namespace) -> str:
    """The command that makes the page again."""
    quick, seeds = ["--quick"] * asked.quick, [] if asked.seeds is None else ["--seeds", str(asked.seeds)]
    return shlex.join(
        ["robustfl-bench", "judge", asked.rule, *asked.overrides, "--against", asked.against, *quick, *seeds]
    )


def _accuracies(asked: Namespace, trial: judge.Trial, name: str, rivals: Sequence[str]) -> judge.Accuracies:
    """The accuracies of the rule and of its rivals, after making the runs that are missing."""
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for option, label, extra in ((asked.rule, name, asked.overrides), *((rival, rival, []) for rival in rivals)):
        extra = [*extra, f"results_dir={asked.results_dir}"]
        made_all(trial.rates([option], extra), asked, f"{label}: its learning rates")
        cells = compose.sweep(trial.cells([option], extra))
        outcome = made_all(trial.cells([option], extra), asked, f"{label}: its runs")
        for cell, end in zip(cells, outcome.ends, strict=True):
            if end.status in (FINISHED, DIVERGED):
                config = dict(
                    word.split("=", 1) for word in cell if word.split("=")[0] in ("partition", "attack", "seed")
                )
                by_seed = found.setdefault((label, config["partition"], config["attack"]), {})
                by_seed[config["seed"]] = end.value if end.status == FINISHED else judge.CHANCE
    return found
