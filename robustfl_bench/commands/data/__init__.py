"""The command ``robustfl-data``: list the data sets, prepare (download and check) them, verify their files, and show
how a run splits one over its clients, and who of these are neighbours.

A module for each verb has its parser and its action; ``shared`` has what several verbs use.
"""

from collections.abc import Sequence

from robustfl_bench.base.console import answer_tab, reported, say
from robustfl_bench.base.errors import INTERRUPTED
from robustfl_bench.commands.data import listing, partition, prepare, topology, verify
from robustfl_bench.commands.data.shared import PROGRAM
from robustfl_bench.commands.verb import parser_of

VERBS = (listing.VERB, prepare.VERB, verify.VERB, partition.VERB, topology.VERB)


def main(argv: Sequence[str] | None = None) -> int:
    """Console entry point; returns its exit code."""
    parser = parser_of(
        PROGRAM, "Data sets: their files, and how a run splits them over its clients, who may be neighbours.", VERBS
    )
    answer_tab(parser)
    arguments = parser.parse_args(argv)
    try:
        return reported(arguments.run, arguments, prefix=PROGRAM)
    except KeyboardInterrupt:
        say(f"{PROGRAM}: interrupted; run the same command again to continue")
        return INTERRUPTED
