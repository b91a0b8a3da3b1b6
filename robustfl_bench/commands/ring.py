"""The command ``robustfl-ring``: one process per client on this machine, or one client under ``torchrun``."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from robustfl_bench.base.console import Parser, answer_tab, completed
from robustfl_bench.runner.config import completion


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Console entry point; exits as ``robustfl-bench`` does."""
    parser = Parser(
        prog="robustfl-ring",
        description="An experiment of robustfl-bench as a ring of real processes, each one client, or with "
        "protocol=gossip each one node: the same options, the same run folder, the same bytes.",
    )
    asked = parser.add_argument(
        "overrides", nargs="*", metavar="OPTION=VALUE", help="override, as for robustfl-bench: lr=0.01"
    )
    completed(asked, completion.overrides)
    parser.add_argument(
        "--timeout", type=float, default=20, metavar="SECONDS",
        help="longest silence of a neighbour; choose more than the time that a client needs for a round (%(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--checkpoint-every",
        type=int,
        default=1,
        metavar="ROUNDS",
        help="rounds between the checkpoints from which an interrupted run resumes (%(default)d)",
    )
    answer_tab(parser)
    arguments = parser.parse_args(argv)
    if not 0 < arguments.timeout < float("inf") or arguments.checkpoint_every < 1:
        parser.error("--timeout and --checkpoint-every must be above 0")
    given = {override.split("=")[0] for override in arguments.overrides}
    usual = [f"{key}={value}" for key, value in (("protocol", "ring"), ("device", "cpu")) if key not in given]
    overrides = [*usual, *arguments.overrides]

    from robustfl_bench.runner.processes.ring.launch import client, launch  # imports torch

    if "RANK" in os.environ:  # torchrun
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        client(rank, size, "env://", arguments.timeout, arguments.checkpoint_every, overrides)
    sys.exit(launch(arguments.timeout, arguments.checkpoint_every, overrides))


if __name__ == "__main__":  # under torchrun: -m robustfl_bench.commands.ring
    from robustfl_bench.commands import entry

    entry.ring()
