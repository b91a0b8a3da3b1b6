"""The command ``robustfl-ring``: one process per client on this machine, or one client under ``torchrun``."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.verb import Argument, command, override


def ring(
    overrides: Annotated[Sequence[str], override("override, as for robustfl-bench: lr=0.01", "OPTION=VALUE")] = (),
    *,
    timeout: Annotated[
        float,
        Argument(
            "longest silence of a neighbour; choose more than the time that a client needs for a round (%(default)g)",
            "SECONDS",
        ),
    ] = 20,
    checkpoint_every: Annotated[
        int,
        Argument("rounds between the checkpoints from which an interrupted run resumes (%(default)d)", "ROUNDS"),
    ] = 1,
) -> None:
    """An experiment of robustfl-bench as a ring of real processes, each one client, or with protocol=gossip each one
    node: the same options, the same run folder, the same bytes.
    """
    if not 0 < timeout < float("inf") or checkpoint_every < 1:
        raise ConfigError("--timeout and --checkpoint-every must be above 0 (see robustfl-ring --help)")
    given = {override.split("=")[0] for override in overrides}
    usual = [f"{key}={value}" for key, value in (("protocol", "ring"), ("device", "cpu")) if key not in given]
    words = [*usual, *overrides]

    from robustfl_bench.runner.processes.launch import client, launch  # imports torch

    if "RANK" in os.environ:  # torchrun
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        client(rank, size, "env://", timeout, checkpoint_every, words)
    sys.exit(launch(timeout, checkpoint_every, words))


main = command(ring, "robustfl-ring", reads=False, prefix="robustfl-ring")


if __name__ == "__main__":  # under torchrun: -m robustfl_bench.commands.ring
    from robustfl_bench.commands import entry

    entry.ring()
