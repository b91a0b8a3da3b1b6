"""The verbs of ``robustfl-results`` that the laboratory brings, and an argument that they share."""

from robustfl_bench.base.console import Parser
from robustfl_bench.lab.arena.tuned import BOOKS


def add_book(parser: Parser) -> None:
    """The argument ``--book``."""
    parser.add_argument(
        "--book",
        choices=BOOKS,
        default="plain",
        help="the rule book: plain, rules as they come, or tuned in each panel (%(default)s)",
    )
