"""Which cells of a sweep are trained together."""

from collections.abc import Iterator, Sequence

from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.runner.experiment.stack import alike, at_once
from robustfl_bench.runner.sweeps.cells import SweepCell


def stacks(cells: Sequence[SweepCell], takers: int) -> Iterator[list[SweepCell]]:
    """The cells in stacks, in the order of their first cells; most are alone if their runs are.

    Alone is also a cell in whose run a process has died, so that it ends no others, and one that is the same run as an
    earlier one. ``takers`` processes share the cells.
    """
    groups: dict[str, list[SweepCell]] = {}
    for number, cell in enumerate(cells):
        known = cell.known
        joins = known is not None and known.settings.stack and not cell.folder().deaths
        groups.setdefault(alike(known) if joins and known is not None else str(number), []).append(cell)
    share = -(-len(cells) // takers)
    for group in groups.values():
        first_of = {cell.folder().run_id: cell for cell in reversed(group)}
        distinct = [cell for cell in group if first_of[cell.folder().run_id] is cell]
        most = min(share, _at_once(distinct)) if len(distinct) > 1 else 1
        yield from (distinct[i : i + most] for i in range(0, len(distinct), most))
        yield from ([cell] for cell in group if first_of[cell.folder().run_id] is not cell)


def _at_once(cells: Sequence[SweepCell]) -> int:
    """How many of these cells, which are alike, are trained together."""
    for cell in cells:
        try:
            return at_once(plan(cell.composed[0]))
        except Exception:  # of this cell alone, whose run records it
            continue
    return 1
