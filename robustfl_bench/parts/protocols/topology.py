"""The graphs of gossip: who exchanges models with whom, and the weight of every link."""

import csv
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from robustfl_bench.base.errors import ConfigError, DataError, one_line

COLUMNS = ("node", "neighbour")
"""The columns that a file of links must have."""


@dataclass(frozen=True)
class Graph:
    """The neighbours of h honest nodes: ``honest`` (h, h) bool, symmetric, and ``byzantine`` (h, b) bool.

    Links between attackers do not exist: attackers know everything anyway.
    """

    honest: np.ndarray
    byzantine: np.ndarray

    @property
    def num_links(self) -> int:
        """Directed links, on each of which a message travels in a round."""
        return int(self.honest.sum() + 2 * self.byzantine.sum())

    @property
    def attackers(self) -> np.ndarray:
        """The links from attackers to honest nodes, (e, 2): attacker and node, by nodes."""
        return np.argwhere(self.byzantine)[:, ::-1].copy()

    @property
    def fewest_neighbours(self) -> int:
        """The smallest number of neighbours of an honest node."""
        return int((self.honest.sum(axis=1) + self.byzantine.sum(axis=1)).min(initial=len(self.honest)))

    @cached_property
    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """The gossip weights W of Metropolis and Hastings: (h, h) among honest nodes, own weights on the diagonal, and
        (h, b) of attackers' messages; float64, each node's sum to 1.

        W_ij = 1 / (1 + max(d_i, d_j)) for nodes of degrees d, so that the part among honest nodes is symmetric. A
        degree is what a node says: an attacker gets the largest weight, 1 / (1 + d_i), by claiming few neighbours.
        """
        degrees = self.honest.sum(axis=1) + self.byzantine.sum(axis=1)
        inside = self.honest / (1.0 + np.maximum(degrees[:, None], degrees))
        attackers = self.byzantine / (1.0 + degrees[:, None])
        np.fill_diagonal(inside, 1 - inside.sum(axis=1) - attackers.sum(axis=1))
        return inside, attackers

    def checked(self, remedy: str) -> "Graph":
        """The graph itself. Raises ConfigError, which ends with ``remedy``, unless the honest nodes are connected by
        links among themselves."""
        reached = np.zeros(len(self.honest), dtype=bool)
        reached[:1], grown = True, True
        while grown:
            wider = reached | self.honest[reached].any(axis=0)
            reached, grown = wider, bool((wider != reached).any())
        if not reached.all():
            raise ConfigError(
                f"the honest nodes are not connected without attackers: {reached.sum()} of {len(reached)} reach each "
                f"other; {remedy}"
            )
        return self


def attached(honest: np.ndarray, attackers: int, each: int | None) -> Graph:
    """Attackers beside a graph (h, h) of honest nodes: every node has ``each`` of them as neighbours, in turn, or all
    if there are no more, or with None."""
    nodes, each = len(honest), attackers if each is None else min(each, attackers)
    links = np.zeros((nodes, attackers), dtype=bool)
    if attackers:
        first = np.arange(nodes) * each
        np.put_along_axis(links, (first[:, None] + np.arange(each)) % attackers, True, axis=1)
    return Graph(honest, links)


def linked(nodes: int, links: np.ndarray) -> np.ndarray:
    """The symmetric matrix (n, n) bool of a list of links (k, 2)."""
    matrix = np.zeros((nodes, nodes), dtype=bool)
    matrix[links[:, 0], links[:, 1]] = matrix[links[:, 1], links[:, 0]] = True
    np.fill_diagonal(matrix, False)
    return matrix


def ring(nodes: int) -> np.ndarray:
    """Every node has the one before and the one after it as neighbours."""
    return linked(nodes, np.stack([np.arange(nodes), np.roll(np.arange(nodes), -1)], axis=1))


def complete(nodes: int) -> np.ndarray:
    """All others are neighbours."""
    return ~np.eye(nodes, dtype=bool)


def torus(nodes: int) -> np.ndarray:
    """A grid, as square as the number of nodes allows, whose opposite sides touch: four neighbours, from 3 x 3 on.

    Raises ConfigError for a number of nodes that is no product.
    """
    rows = next((a for a in range(int(nodes**0.5), 1, -1) if nodes % a == 0), None)
    if rows is None:
        raise ConfigError(f"a torus needs a x b honest nodes with a and b above 1, got {nodes}; take another number")
    grid = np.arange(nodes).reshape(rows, -1)
    pairs = [np.stack([grid, np.roll(grid, -1, axis)], axis=-1).reshape(-1, 2) for axis in (0, 1)]
    return linked(nodes, np.concatenate(pairs))


def two_cliques(nodes: int, bridges: int) -> np.ndarray:
    """Two halves, complete each, and ``bridges`` links between them, each of other nodes.

    One is the dumbbell of He, Karimireddy, Jaggi (2022, section 6). Raises ConfigError for more than half the nodes.
    """
    half = nodes // 2
    if bridges > half:
        raise ConfigError(f"protocol.bridges must be at most {half}, half of {nodes} honest nodes, got {bridges}")
    side = np.arange(nodes) < half
    across = np.stack([np.arange(bridges), half + np.arange(bridges)], axis=1)
    joined: np.ndarray = (side[:, None] == side) & complete(nodes) | linked(nodes, across)
    return joined


def erdos_renyi(probability: float, seeds: Sequence[int]) -> np.ndarray:
    """Every pair i < j is linked with this probability, as number j of the generator with the seed of node i says."""
    draws = np.stack([np.random.default_rng(seed).random(len(seeds)) for seed in seeds])
    return linked(len(seeds), np.argwhere(np.triu(draws < probability, 1)))


def from_file(path: str, digest: str | None, clients: int) -> np.ndarray:
    """The links (n, n) bool that a CSV with the COLUMNS lists, one in a line, each between two of the n ``clients``, by
    their numbers from 0.

    Raises DataError for a file that cannot be read, has another SHA-256 than ``digest``, or lists a link of a node with
    itself or with a node that does not exist.
    """
    try:
        content = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise DataError(f"{path}: the links cannot be read: {error.strerror or error}") from error
    found = hashlib.sha256(content).hexdigest()
    if digest not in (None, found):
        raise DataError(
            f"{path} has SHA-256 {found[:12]}..., but the run is of {str(digest)[:12]}...; restore the file, or name "
            "it anew with protocol.path"
        )
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig")), strict=True))
        links = np.array([[int(row[name]) for name in COLUMNS] for row in rows], dtype=np.int64).reshape(-1, 2)
    except (KeyError, TypeError, ValueError, OverflowError, csv.Error) as error:
        what = f"no column {error}" if isinstance(error, KeyError) else one_line(error)
        raise DataError(f"{path} lists no links (a CSV with the columns {','.join(COLUMNS)}): {what}") from error
    for line, (one, other) in enumerate(links.tolist(), start=2):
        if one == other:
            raise DataError(f"{path} line {line}: node {one} is linked with itself; remove the line")
        if unknown := [node for node in (one, other) if not 0 <= node < clients]:
            raise DataError(f"{path} line {line}: no node {unknown[0]}; the clients are 0 to {clients - 1}")
    return linked(clients, links)
