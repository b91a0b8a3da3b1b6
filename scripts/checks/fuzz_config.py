"""Random commands: each must make a run, or be refused in one line with nothing written.

    python scripts/checks/fuzz_config.py --count 1200 --seed 0

Every command is `robustfl-bench` in this process with tiny runs, in an empty folder, with a limit of memory and time.
Where a command makes a run, its overrides and the command in the run's summary must compose to the identity of the
config in the run's folder.
Prints the number of commands by outcome, and every finding with its command; exit code 1 when there is a finding.
"""

import argparse
import io
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.trees import flatten
from robustfl_bench.commands import bench
from robustfl_bench.runner.config import compose, identity, options, words
from robustfl_bench.train.parts import GROUPS
from robustfl_bench.train.settings import SCALARS

BASE = ("rounds=1", "num_clients=6", "num_byzantine=1", "device=cpu", "num_threads=1", "batch_size=4")
LIGHT = ("model=mlp", "model.hidden=[4]")
OFFLINE = ("digits", "rotated_digits", "linear_mixture", "mean_mixture")  # data sets that need no download
ODD = (
    "0", "1", "2", "3", "-1", "7", "0.5", "1.5", "-0.5", "1e-3", "5e-4", "1e400", "nan", "inf", "-inf", ".5", "1.",
    "1_000", "0x10", "010", "1e1", "+1", "-0", "null", "None", "NULL", "~", "true", "False", "yes", "off", "''", '""',
    "'1'", '"a b"', "'it\\'s'", "abc", "a b", "é", "日本", "[]", "[1]", "[1,2]", "[a,'b c']", "[1,[2]]", "{}", "{a:1}",
    "[", "'", "1000000000", "99999999999999999999", "${seed}", "${nowhere}", "${", "a|b", "$(ls)", "a\\b", "a=b", "a,b",
    "2024-01-01", "12:30:00", "???", "", " ", "1 2", "krum", "x" * 500, "9" * 400, "-" + "9" * 19, "1" + "0" * 18,
    "9223372036854775807", "9223372036854775808", "1e308", "5e-324", "-0.0", "0b1", "1,2", "range(2)", "range(0)",
    "range(999999999999)", "choice(1,2)", "\u0661", "\u202e", "\x1b[31m", "a/../b", "%s", "{0}", "None,None",
)  # fmt: skip
SLOW = ("rounds", "epochs", "steps", "max_iter", "restarts", "iterations", "tries")  # a large number is a long run
FAULTS = ("_partial_=true", "_args_=[1]", "_convert_=none", "_recursive_=false", "_target_=os.system", "_target_=nope")


class Capped(BaseException):
    """A run took longer than it may here."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (None: cut off), what it printed, the summaries of its runs, and their configs
    by the ids in the names of their folders."""

    code: int | None
    out: str
    err: str
    runs: tuple[dict[str, Any], ...]
    configs: dict[str, dict[str, Any]]
    partial: bool


def commands(seed: int, count: int) -> Iterator[list[str]]:
    """``count`` lists of arguments; the same for the same seed."""
    for index in range(count):
        draw = random.Random(f"{seed} {index}")
        chosen = [part for _ in range(draw.choice((0, 1, 1, 2, 2, 3, 5))) for part in PIECES[_kind(draw)](draw)]
        base = [*BASE, *(LIGHT if draw.random() < 0.7 else ())]
        given = {item.split("=")[0] for item in chosen}
        yield [item for item in base if item.split("=")[0] not in given] + chosen


def _kind(draw: random.Random) -> str:
    kinds, weights = zip(*WEIGHTS.items(), strict=True)
    return draw.choices(kinds, weights)[0]


def _option(draw: random.Random) -> list[str]:
    group = draw.choice(GROUPS)
    names = options.names(group)
    return [f"{group}={draw.choice(OFFLINE if group == 'dataset' and draw.random() < 0.9 else names)}"]


def _setting(draw: random.Random) -> list[str]:
    """An option together with one of its settings, at a value like its own or at an odd one."""
    group = draw.choice(GROUPS)
    name = draw.choice(OFFLINE if group == "dataset" else options.names(group))
    leaves = [(key, value) for key, value in flatten(options.chosen(group, name)) if "_target_" not in key]
    if not leaves:
        return [f"{group}={name}"]
    key, value = draw.choice(leaves)
    return [f"{group}={name}", f"{group}.{key}={_value(draw, key, value)}"]


def _value(draw: random.Random, key: str, value: object) -> str:
    if draw.random() < 0.5 and isinstance(value, int | float) and not isinstance(value, bool):
        return str(draw.choice((0, 1, 2, value, value * 2, value / 2, -value)))
    odd = draw.choice(ODD)
    return "2" if key.split(".")[-1] in SLOW and re.fullmatch(r"\d{4,}", odd) else odd


def _scalar(draw: random.Random) -> list[str]:
    key = draw.choice([name for name in (*SCALARS, *identity.FORMS) if name not in ("results_dir", "origin")])
    likely = {
        "device": ("cpu", "auto", "cuda:99", "tpu"), "precision": ("high", "medium", "low"),
        "byzantine_placement": ("add", "replace"), "byzantine_share_by": ("clients", "data"),
        "participation": ("0.5", "0.3", "0.01"), "participation_by": ("kind", "null", "all"),
        "scale": ("paper", "quick"), "variant": ("fair", "published"),
    }  # fmt: skip
    if key in likely and draw.random() < 0.6:
        return [f"{key}={draw.choice(likely[key])}"]
    return [f"{key}={_value(draw, key, draw.choice((1, 2, 5)))}"]


def _attacked(draw: random.Random) -> list[str]:
    return [
        f"attack={draw.choice(options.names('attack'))}", f"aggregator={draw.choice(options.names('aggregator'))}",
        f"num_byzantine={draw.choice((0, 1, 2, 3, 6, 9))}", f"byzantine_placement={draw.choice(('add', 'replace'))}",
    ]  # fmt: skip


def _misspelt(draw: random.Random) -> list[str]:
    group = draw.choice(GROUPS)
    name = draw.choice(options.names(group))
    word = draw.choice((group, *SCALARS, f"{group}.num_byzantine", f"{group}.nothing", "hydra/launchr", "hydra.jb.x"))
    at = draw.randrange(len(word))
    bad = word[:at] + draw.choice("xyz_.é ") + word[at + draw.choice((0, 1)) :]
    return [draw.choice(("", "+", "++", "~")) + bad + draw.choice((f"={name}", "=1", "=null", ""))]


def _preset(draw: random.Random) -> list[str]:
    group = draw.choice([group for group in words.PRESETS if group != "experiment"])
    name = draw.choice(options.names(group))
    broken = draw.random() < 0.2
    return [f"{draw.choice(('', '++', '~')) if broken else '+'}{group}={name[:-1] if draw.random() < 0.1 else name}"]


def _nested(draw: random.Random) -> list[str]:
    rule = draw.choice(options.names("aggregator"))
    return draw.choice((
        ["aggregator=b_krum", f"aggregator@aggregator.rule={rule}"],
        ["aggregator=b_krum", f"aggregator.rule.{draw.choice(('num_byzantine', 'num_selected', 'no'))}={_odd(draw)}"],
        ["dataset=rotated_digits", "partition=natural", f"dataset.base.scaling={draw.choice(('unit', 'none', '5'))}"],
        ["local_update=broadcast", f"local_update.inner.memory_gib={_odd(draw)}"],
        [f"server_data=noisy{draw.choice(('', 'x'))}", f"server_data.corruption.severity={_odd(draw)}"],
        [f"aggregator.rule={_odd(draw)}", "aggregator=b_mkrum"],
        ["aggregator=b_krum", f"~aggregator@aggregator.rule{draw.choice(('', '=krum', '=trmean'))}"],
        [f"aggregator={draw.choice(('cfl', 'b_krum'))}", f"+aggregator@aggregator.{draw.choice(('rule', 'x'))}={rule}"],
        [f"dataset.{draw.choice(('scaling', 'no'))}={_odd(draw)}", "++dataset={scaling:unit}", "~dataset.scaling"],
        [f"{draw.choice(('', '+', '++'))}rates={draw.choice(('{a:1}', _odd(draw)))}", "++rates.a.x=2", "~rates.y"],
    ))  # fmt: skip


def _odd(draw: random.Random) -> str:
    return draw.choice(ODD)


def _part(draw: random.Random) -> list[str]:
    """A part that is none, is built in another way, or is of another group."""
    group, other = draw.choice(GROUPS), draw.choice(GROUPS)
    names = [name for name in options.names(other) if "_target_" in options.option(other, name)]
    target = options.option(other, draw.choice(names))["_target_"]
    return [draw.choice((f"+{group}.{draw.choice(FAULTS)}", f"{group}._target_={target}", f"{group}={_odd(draw)}"))]


def _garbage(draw: random.Random) -> list[str]:
    key = draw.choice((*SCALARS, *GROUPS, "a", "", "=", "+", "~", "--", "é", "x.y.z", "[1]", "'a'", "a b", "\t"))
    word = draw.choice((key, f"{key}={_odd(draw)}", _odd(draw), f"~{key}", f"rerun={_odd(draw)}", "results_dir="))
    return [word] if not word.startswith("-") else [f"x{word}"]  # flags have a parser of their own


def _sweep(draw: random.Random) -> list[str]:
    key = draw.choice(("seed=0,1", "lr=0.1,1e-2", "aggregator=krum,average", "attack=none,ipm", "seed=range(2)"))
    workers = ["hydra/launcher=processes", f"hydra.launcher.n_jobs={draw.choice((1, 2, 2, 0, -1, -2, 'a', '9' * 20))}"]
    return ["-m", key, *(workers if draw.random() < 0.2 else [])] if draw.random() < 0.8 else [key]


def _dry_run(draw: random.Random) -> list[str]:
    return [f"dry_run={draw.choice(('true', 'true', 'true', 'false', _odd(draw)))}", *draw.choice((["-v"], [], []))]


def _protocol(draw: random.Random) -> list[str]:
    key = draw.choice(("buffer", "staleness", "stragglers", "slowdown", "nothing"))
    return [f"protocol={draw.choice(options.names('protocol'))}", f"protocol.{key}={_value(draw, key, 2)}"]


PIECES = {
    "option": _option, "setting": _setting, "scalar": _scalar, "attacked": _attacked, "misspelt": _misspelt,
    "preset": _preset, "nested": _nested, "part": _part, "garbage": _garbage, "sweep": _sweep,
    "dry_run": _dry_run, "protocol": _protocol,
}  # fmt: skip
WEIGHTS = {
    "option": 5, "setting": 6, "scalar": 6, "attacked": 4, "misspelt": 1, "preset": 1.5, "nested": 1.5, "part": 1,
    "garbage": 1, "sweep": 0.8, "dry_run": 0.5, "protocol": 1,
}  # fmt: skip


def run(arguments: Sequence[str], seconds: float) -> Ended:
    """The command in an empty folder of its own, with at most so many seconds of computing."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as out:
        with redirect_stderr(io.StringIO()) as err, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.chdir(folder)
            Path("data").mkdir()
            sys.argv = ["robustfl-bench", "data_dir=data", *arguments]
            cut = False

            def stop(*_: object) -> None:
                nonlocal cut
                cut = True  # what is cut off may end in any way
                raise Capped

            signal.signal(signal.SIGPROF, stop)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            code = 0
            try:
                bench.main()
            except SystemExit as left:
                code = int(left.code or 0)
            except BaseException:
                code = 1
                traceback.print_exc()
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                os.chdir(before)
        # Of a sweep that comes to nothing Hydra leaves an empty folder.
        known = ("data", "results", ".sweep") if "-m" in arguments else ("data",)
        made = [path for path in Path(folder).rglob("*") if path.name not in known and ".sweep" not in path.parts]
        summaries = [json.loads(path.read_text()) for path in made if path.name == "summary.json"]
        configs = {
            path.parent.name.rpartition("-")[2]: identity.stored_config(path)
            for path in made
            if path.name == "config.yaml"
        }
        folders = [path for path in made if path.is_dir() and path.parent.name == "runs"]
        partial = len(folders) != len(summaries) or (bool(made) and not folders)
        shutil.rmtree(Path(folder) / "results", ignore_errors=True)
    return Ended(None if cut else code, out.getvalue(), err.getvalue(), tuple(summaries), configs, partial)


def judge(arguments: Sequence[str], ended: Ended) -> tuple[str, str]:
    """The outcome of a command, and what is wrong with it, or nothing."""
    sweep = "-m" in arguments
    states = Counter(str(summary["status"]) for summary in ended.runs)
    if ended.code is None:
        return "cut off", ""
    lines = [line for line in ended.err.splitlines() if not line.startswith("note: ")]
    told = ("failed: ", "infeasible: ", "error: ", "sweep: ", "  ")
    kinds = told if sweep else ("error: ",)
    if ended.code not in (0, 2, 3):
        return "bad", f"exit code {ended.code}"
    if "Traceback" in ended.err or not all(line.startswith(kinds) for line in lines):
        return "bad", "other lines than errors"
    expected = {"finished", "infeasible", "diverged"} | ({"failed"} if sweep and ended.code else set())
    if set(states) - expected or ended.partial:
        return "bad", f"left behind: {dict(states)}"
    if ended.code and not sweep:
        if len(lines) != 1 or ended.out:
            return "bad", "not one line"
        if ended.runs:
            return "bad", "refused and written"
    if not ended.code and re.match(r"\d+ runs?: ", ended.out):
        return ("dry run", "") if not ended.runs and not lines else ("bad", "a dry run that made a run")
    if not ended.code and ((lines and not sweep) or not ended.runs):
        return "bad", "no run, or an error line with exit code 0"
    name = {0: "+".join(sorted(states)), 2: "refused", 3: "no data"}[ended.code]
    return (f"sweep, {name}" if sweep else name), ""


def compare(arguments: Sequence[str], ended: Ended) -> str:
    """What is wrong with the identities of the runs of a command, or nothing."""
    arguments = [word for word in arguments if word != "-v"]
    try:
        alone = set() if "-m" in arguments else {compose.resolve(arguments).run_id}
    except ConfigError as error:
        return f"refused here: {error}" if ended.code == 0 else ""
    except Exception as error:
        return f"resolve raises {type(error).__name__}: {error}"
    for summary in (summary for summary in ended.runs if "run_id" in summary):
        again = compose.resolve(shlex.split(str(summary["command"]))[1:])
        if alone | {again.run_id, identity.run_id(ended.configs[summary["run_id"]])} != {summary["run_id"]}:
            return f"the run is {summary['run_id']}, its command makes {again.run_id}"
    return ""


def main() -> None:
    """Run the commands and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1200, help="commands (%(default)d)")
    parser.add_argument("--seed", type=int, default=0, help="of the commands (%(default)d)")
    parser.add_argument("--first", type=int, default=0, help="leave out those before (%(default)d)")
    parser.add_argument("--seconds", type=float, default=10, help="of computing for a command (%(default)g)")
    parser.add_argument("--memory", type=float, default=8, help="GB of addresses for this process (%(default)g)")
    arguments = parser.parse_args()
    run(BASE, 600)  # imports are not interrupted
    limit = int(arguments.memory * 1e9)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    outcomes, findings, compared, started = Counter[str](), 0, 0, time.monotonic()
    for index, command in enumerate(commands(arguments.seed, arguments.count)):
        if index < arguments.first:
            continue
        ended = run(command, arguments.seconds)
        outcome, wrong = judge(command, ended)
        outcomes[outcome] += 1
        problems = [problem for problem in (wrong, compare(command, ended)) if problem]
        compared += sum("run_id" in summary for summary in ended.runs)
        for problem in problems:
            findings += 1
            print(f"FINDING {index}: {problem}\n  {shlex.join(command)}\n  {ended.err.strip()[-600:]}", flush=True)
    print(f"{sum(outcomes.values())} commands in {time.monotonic() - started:.0f} s, seed {arguments.seed}")
    for outcome, number in outcomes.most_common():
        print(f"{number:6d}  {outcome}")
    print(f"{compared:6d}  identities compared\n{findings:6d}  findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
