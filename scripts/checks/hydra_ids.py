"""Is a run the same by words, by Hydra and by its composed config?

    python scripts/checks/hydra_ids.py --count 500 --seed 0

Of each random config, the id is compared: composed here from the words, by Hydra from the same words, from the config
of Hydra as `robustfl_bench.run(config)` takes it, and from the command that this run records. The config after
OmegaConf has resolved it must have the same id, or be refused. Prints the numbers, and every finding with its command;
exit code 1 when there is a finding.
"""

import argparse
import random
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from robustfl_bench.base.errors import ConfigError, one_line
from robustfl_bench.doors.api import run
from robustfl_bench.runner.config import compose, identity, options
from robustfl_bench.runner.config.beyond import ForHydra
from robustfl_bench.runner.config.options import CONF
from robustfl_bench.runner.config.words import overrides
from robustfl_bench.runner.experiment import rates
from robustfl_bench.runner.experiment.plan import plan
from scripts.checks import fuzz_config as fuzz

BY_HYDRA = ForHydra(config_name="config")
"""Lets Hydra compose what is composed here as well."""

KINDS = ("option", "setting", "scalar", "attacked", "preset", "nested", "protocol")


def drawn(seed: int, left_out: list[list[str]] | None = None) -> Iterator[list[str]]:
    """The words of random runs that can be planned here and composed by Hydra, without end; the same for the same seed.

    ``left_out`` gets those that only Hydra refuses.
    """
    index = 0
    while True:
        draw = random.Random(f"{seed} {index}")
        index += 1
        words = [word for _ in range(draw.choice((1, 2, 3, 4))) for word in fuzz.PIECES[draw.choice(KINDS)](draw)]
        words += draw.choice(([], _of_experiment(draw), _of_rounds(draw), _own(draw)))
        try:
            plan(compose.resolve(words).config)
        except Exception:  # fuzz_config.py reports what is no line
            continue
        try:
            composed(words)
        except (HydraException, OmegaConfBaseException):
            if left_out is not None:
                left_out.append(words)
            continue
        yield words


def _of_experiment(draw: random.Random) -> list[str]:
    """A cell of an experiment."""
    cells = compose.sweep([f"+experiment={draw.choice(options.names('experiment'))}"])
    return [*draw.choice(cells), "lr=0.1"]


def _of_rounds(draw: random.Random) -> list[str]:
    """What f depends on."""
    chain = draw.choice(("none", "[clipping,nnm]", "[bucketing]", "nnm", "[arc,clipping]"))
    declared = draw.choice(("null", "0.1", "0.3", "${num_byzantine}", "2", "4"))
    return [
        f"participation={draw.choice((1, 0.5, 0.3))}", f"num_byzantine_declared={declared}",
        f"num_byzantine={draw.choice((0, 1, 3, 4))}", f"pre_aggregation={chain}",
        f"weighting={draw.choice(('none', 'samples', 'capped'))}",
    ]  # fmt: skip


def _own(draw: random.Random) -> list[str]:
    """A key of the user, which a setting reads or not."""
    rate = draw.choice(("0.1", "1e-3", "5"))
    return [f"+my.rate={rate}", "+my.note={who: me, list: [1, 2]}", *draw.choice(([], ["lr=${my.rate}"]))]


def composed(words: Sequence[str]) -> DictConfig:
    """The config that another Hydra app composes of these words."""
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        return hydra.compose("config", [one.text for one in overrides(words)])


def compared(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each way to the run of these words, with what is wrong with it, or nothing."""
    run_id = compose.resolve(words).run_id

    def verdict(other: str) -> str:
        return "" if other == run_id else f"is {other}, not {run_id}"

    yield "by Hydra", verdict(compose.resolve(words, hydra=BY_HYDRA).run_id)
    config = composed(words)
    given, call = run.of_composed(run.taken([config], {})[0] or {}, [], None)
    yield "by its config", verdict(identity.run_id(given))
    command = f"records {call.command}" if not call.overrides and call.program[-1] != "robustfl-bench" else ""
    yield "by the command of this run", command or verdict(compose.resolve(call.overrides).run_id)
    resolved = OmegaConf.to_container(config, resolve=True)
    assert isinstance(resolved, dict)
    try:
        again, _ = run.of_composed({str(key): value for key, value in resolved.items()}, [], None)
        plan(again)
    except ConfigError:
        yield "resolved, refused", ""
    else:
        yield "resolved, the same", verdict(identity.run_id(again))


def main() -> None:
    """Compare the ids, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500, help="configs (%(default)d)")
    parser.add_argument("--seed", type=int, default=0, help="of the configs (%(default)d)")
    arguments = parser.parse_args()
    assert rates  # brings a resolver
    counts, findings, left_out = Counter[str](), 0, list[list[str]]()
    for _, words in zip(range(arguments.count), drawn(arguments.seed, left_out), strict=False):
        try:
            outcomes = list(compared(words))
        except Exception as error:
            outcomes = [("at all", f"{type(error).__name__}: {one_line(error)}")]
        for way, wrong in outcomes:
            counts[way] += not wrong
            findings += bool(wrong)
            if wrong:
                print(f"FINDING {way}: {wrong}\n  robustfl-bench {shlex.join(words)}", flush=True)
    for way, number in counts.items():
        print(f"{number:6d} of {arguments.count}  {way}")
    print(f"{len(left_out):6d}  others, which Hydra refuses\n{findings:6d}  findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
