"""PageRank by supersteps on all hosts; messages to the same vertex are added on the switches.

    innet run star8 --rate 200mbit -- python apps/pagerank.py
    innet run star8 --rate 200mbit -- python apps/pagerank.py --vertices 50000 --algorithms inc ring
    innet run fat-tree-4 -- python apps/pagerank.py --edges wiki-Vote.txt

The program is written as one for a single vertex (Malewicz et al., "Pregel: a system for
large-scale graph processing", SIGMOD 2010): in a superstep, a vertex takes the messages sent to it
in the last one, changes its value, sends messages along its edges, or votes to halt. Messages to
one vertex are combined on the way: within a rank, then on the switches (`inc`) or on one host
(`ps`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import networkx as nx
import numpy as np
import numpy.typing as npt
from combining import argument_parser, draw_bars, draw_busiest_link, place_of
from rich.console import Console
from rich.table import Table

import innet
from innet.errors import InnetError

CITATIONS = 5
TURNED_ROUND = 0.3

Floats = npt.NDArray[np.float64]
Vertices = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]


class InputError(Exception):
    """There is no graph; says why, and what to do."""


# Vertex programs.


@dataclass(frozen=True)
class Share:
    """The vertices of one rank, and the edges that leave them.

    Attributes:
        vertices: numbers of the vertices, ascending.
        degrees: edges that leave each of them.
        targets: where these lead, in the order of the vertices.
        graph_vertices: vertices of the whole graph.
    """

    vertices: Vertices
    degrees: npt.NDArray[np.int64]
    targets: Vertices
    graph_vertices: int

    @classmethod
    def of_rank(cls, edges: Vertices, graph_vertices: int, rank: int, ranks: int) -> Share:
        """Every ``ranks``-th vertex; ``edges`` are rows (from, to), ascending."""
        vertices = np.arange(rank, graph_vertices, ranks, dtype=np.uint32)
        mine = edges[edges[:, 0] % ranks == rank]
        degrees = np.bincount(mine[:, 0] // ranks, minlength=len(vertices))
        return cls(vertices, degrees, np.ascontiguousarray(mine[:, 1]), graph_vertices)


class VertexProgram(Protocol):
    """The program of a vertex, run for all vertices of a rank: arrays have an element for each.

    Attributes:
        combiner: how messages to the same vertex become one: ``sum``, ``min`` or ``max``.
        silence: what a vertex finds that got no message.
    """

    combiner: str
    silence: float

    def start(self, share: Share) -> Floats:
        """Values before the first superstep."""

    def compute(
        self, share: Share, superstep: int, values: Floats, messages: Floats
    ) -> tuple[Floats, Floats, Flags]:
        """One superstep.

        Returns:
            New values, what each vertex sends along each of its edges, and which send nothing and
            vote to halt until a message wakes them.
        """


class PageRank:
    """PageRank as a series: what a vertex gained in a superstep is what it hands on in the next.

    The rank that vertices without edges would spread over all is left out and made up for by the
    scale of the result, which it does not change otherwise: ranks are a multiple of
    ``(I - damping * A)^-1 1`` either way.
    """

    combiner = "sum"
    silence = 0.0

    def __init__(self, damping: float, tolerance: float) -> None:
        self._damping = damping
        self._tolerance = tolerance

    def start(self, share: Share) -> Floats:
        """Nothing yet."""
        return np.zeros(len(share.vertices))

    def compute(
        self, share: Share, superstep: int, values: Floats, messages: Floats
    ) -> tuple[Floats, Floats, Flags]:
        """Take what came, hand it on damped; halt when it is too little to matter."""
        if superstep == 0:
            gained = np.full(len(values), 1 / share.graph_vertices)
        else:
            gained = self._damping * messages
        halts = (share.degrees == 0) | (gained * share.graph_vertices < self._tolerance)
        return values + gained, gained / np.maximum(share.degrees, 1), halts


@dataclass
class Run:
    """A vertex program's run on this rank.

    Attributes:
        values: of this rank's vertices.
        messages: by superstep, how many vertices got messages.
        waited_s: time spent in exchanging messages.
    """

    values: Floats
    messages: list[int] = field(default_factory=list)
    waited_s: float = 0.0

    @property
    def supersteps(self) -> int:
        """How many it took."""
        return len(self.messages)


def run_program(comm: innet.Communicator, program: VertexProgram, share: Share) -> Run:
    """Supersteps until every vertex has voted to halt and no message is on its way."""
    run = Run(program.start(share))
    received = np.full(len(share.vertices), program.silence)
    awake = np.ones(len(share.vertices), bool)
    while True:
        values, sent, halts = program.compute(share, run.supersteps, run.values, received)
        run.values = np.where(awake, values, run.values)
        sending = np.repeat(awake & ~halts, share.degrees)
        began_s = time.perf_counter()
        combined = comm.reduce_by_key(
            share.targets[sending], np.repeat(sent, share.degrees)[sending], program.combiner
        )
        run.waited_s += time.perf_counter() - began_s
        assert combined is not None
        woken, messages = combined
        run.messages.append(len(woken))
        if len(woken) == 0:
            return run
        mine = woken % comm.size == comm.rank
        places = woken[mine] // comm.size
        received[:], awake[:] = program.silence, False
        received[places], awake[places] = messages[mine], True


# Graphs.


def read_edges(path: Path) -> npt.NDArray[np.int64]:
    """Rows (from, to) of a file with two numbers in each line; ``#`` begins a comment.

    Raises:
        InputError: the file cannot be read as that.
    """
    try:
        edges = np.loadtxt(path, np.int64, comments="#", usecols=(0, 1), ndmin=2)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read edges from {path} (each line has two numbers, FROM TO): {error}"
        ) from error
    if len(edges) == 0:
        raise InputError(f"there are no edges in {path}")
    return edges


def make_edges(vertices: int, seed: int) -> npt.NDArray[np.int64]:
    """A graph like one of citations: later vertices refer to earlier ones, rather to popular ones.

    Preferential attachment (Barabási and Albert 1999); a part of the edges is turned round, so that
    rank flows in circles too.
    """
    graph = nx.barabasi_albert_graph(vertices, CITATIONS, seed=seed)
    edges = np.sort(np.array(graph.edges, np.int64), axis=1)[:, ::-1].copy()
    turned = np.random.default_rng(seed).random(len(edges)) < TURNED_ROUND
    edges[turned] = edges[turned, ::-1]
    return edges


def share_edges(comm: innet.Communicator, edges: npt.NDArray[np.int64] | None) -> Vertices:
    """Rank 0's edges on every rank: ascending, each once, vertices numbered from 0."""
    size = np.zeros(1, np.int64)
    numbered = np.empty((0, 2), np.uint32)
    if edges is not None:
        _, numbers = np.unique(edges, return_inverse=True)
        numbered = np.unique(numbers.reshape(-1, 2).astype(np.uint32), axis=0)
        size[0] = len(numbered)
    comm.broadcast(size)
    if edges is None:
        numbered = np.empty((int(size[0]), 2), np.uint32)
    return comm.broadcast(numbered)


# The job.


@dataclass(frozen=True)
class Result:
    """One run, as ``--output`` saves it.

    Attributes:
        algorithm: where messages were combined.
        seconds: of all supersteps.
        waited_s: the part of it that rank 0 spent in exchanging messages.
        busiest_link_bytes: on the host's link that carried the most.
        messages: by superstep, how many vertices got messages.
        difference: sum over all vertices of the difference from networkx's ranks, if compared.
    """

    algorithm: str
    seconds: float
    waited_s: float
    busiest_link_bytes: int
    messages: list[int]
    difference: float | None


def ranks_of_networkx(edges: Vertices, vertices: int, damping: float) -> Floats | None:
    """The ranks that networkx computes in one process; nothing without SciPy, which it needs."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(vertices))
    graph.add_edges_from(edges.tolist())
    try:
        ranks: dict[int, float] = nx.pagerank(graph, alpha=damping, tol=1e-12, max_iter=1000)
    except ImportError:
        return None
    return np.array([ranks[vertex] for vertex in range(vertices)])


def whole_ranks(comm: innet.Communicator, share: Share, values: Floats) -> Floats:
    """The ranks of all vertices, which add up to 1, on every rank."""
    ranks = np.zeros(share.graph_vertices)
    ranks[share.vertices] = values
    total: Floats = comm.allreduce(ranks)
    return np.asarray(total / total.sum())


def run(arguments: argparse.Namespace) -> bool:
    """Compute with each algorithm; false when a result is not networkx's."""
    made: npt.NDArray[np.int64] | None = None
    # Before the group is there: a rank that ends with an error then has nobody to wait for.
    if os.environ.get("RANK") == "0":
        made = (
            read_edges(arguments.edges)
            if arguments.edges is not None
            else make_edges(arguments.vertices, arguments.seed)
        )
    comm = innet.init()
    edges = share_edges(comm, made)
    vertices = int(edges.max()) + 1
    share = Share.of_rank(edges, vertices, comm.rank, comm.size)
    expected = None
    if comm.rank == 0 and arguments.check:
        expected = ranks_of_networkx(edges, vertices, arguments.damping)
    program = PageRank(arguments.damping, arguments.tolerance)
    results = []
    for number, algorithm in enumerate(arguments.algorithms):
        group = innet.init(group=f"pagerank{number}", algorithm=algorithm)
        done, cost = innet.measure(group, partial(run_program, group, program, share))
        ranks = whole_ranks(comm, share, done.values)
        difference = None if expected is None else float(np.abs(ranks - expected).sum())
        results.append(
            Result(
                algorithm,
                cost.seconds,
                done.waited_s,
                cost.busiest_link_bytes,
                done.messages,
                difference,
            )
        )
    if comm.rank != 0:
        return True
    tell(results, ranks, len(edges), arguments.output)
    return all(
        result.difference is None or result.difference < 20 * arguments.tolerance
        for result in results
    )


def tell(results: Sequence[Result], ranks: Floats, edges: int, directory: Path) -> None:
    """Print the comparison, and save it."""
    console = Console(width=110)
    top = np.argsort(-ranks)[:5]
    highest = ", ".join(f"{vertex} ({ranks[vertex]:.5f})" for vertex in top)
    console.print(f"{len(ranks):,} vertices, {edges:,} edges; highest ranks: {highest}")
    console.print(table_of(results))
    save(results, directory)
    console.print(f"saved: {directory}/pagerank.json and .png")


def table_of(results: Sequence[Result]) -> Table:
    """The comparison, for people."""
    table = Table(title="PageRank by supersteps")
    headings = (
        "combined",
        "supersteps",
        "time s",
        "exchanging s",
        "busiest link MB",
        "off networkx",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "combined" else "right")
    for result in results:
        table.add_row(
            place_of(result.algorithm),
            str(len(result.messages)),
            f"{result.seconds:.2f}",
            f"{result.waited_s:.2f}",
            f"{result.busiest_link_bytes / 1e6:.2f}",
            "-" if result.difference is None else f"{result.difference:.1e}",
        )
    return table


def save(results: Sequence[Result], directory: Path) -> None:
    """Write the results as JSON, and a picture of them."""
    from matplotlib.figure import Figure

    directory.mkdir(parents=True, exist_ok=True)
    records: list[dict[str, Any]] = [asdict(result) for result in results]
    (directory / "pagerank.json").write_text(json.dumps(records, indent=2))
    figure = Figure(figsize=(12, 3.5), layout="constrained")
    supersteps, times, links = figure.subplots(1, 3)
    algorithms = [result.algorithm for result in results]
    supersteps.plot(results[0].messages, "o-")
    supersteps.set(xlabel="superstep", title="Vertices that got messages")
    waited_s = [result.waited_s for result in results]
    draw_bars(times, algorithms, waited_s, unit="seconds", title="Time in exchanging messages")
    draw_busiest_link(links, algorithms, [result.busiest_link_bytes for result in results])
    figure.savefig(directory / "pagerank.png", dpi=120)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argument_parser(__doc__ or "", "combine", Path("results/pagerank"))
    parser.add_argument("--edges", type=Path, metavar="FILE", help="two numbers a line: FROM TO")
    parser.add_argument(
        "--vertices", type=int, default=20_000, help="of the graph made without --edges"
    )
    parser.add_argument("--seed", type=int, default=1, help="of that graph")
    parser.add_argument("--damping", type=float, default=0.85)
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-6,
        help="a vertex halts when it gains less than this part of the mean rank (default: 1e-6)",
    )
    parser.add_argument(
        "--no-check", dest="check", action="store_false", help="do not compare with networkx"
    )
    arguments = parser.parse_args()
    if arguments.vertices <= CITATIONS:
        parser.error(f"--vertices must be more than {CITATIONS}")
    if not 0 <= arguments.damping < 1 or arguments.tolerance <= 0:
        parser.error("--damping must be in 0 .. 1 and --tolerance positive")
    return arguments


def main() -> int:
    """Compute; the exit status."""
    try:
        return 0 if run(parse_arguments()) else 1
    except (InnetError, InputError) as error:
        print(f"pagerank: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
