"""Counts the words of many files on all hosts; counts of equal words are added on the switches.

    innet run star8 --rate 200mbit -- python apps/wordcount.py
    innet run star8 --rate 200mbit -- python apps/wordcount.py --algorithms inc ps ring
    innet run fat-tree-4 -- python apps/wordcount.py ~/books --top 30

Each rank counts its share of the files by itself. What they share are pairs (hash of a word,
count), reduced by key: on the switches (`inc`), or on one host (`ps`), for comparison. Without
files it reads the Python standard library's own sources and documentation.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from combining import argument_parser, draw_bars, draw_busiest_link, place_of
from rich.console import Console
from rich.table import Table

import innet
from innet.errors import InnetError

LONGEST_WORD = 64
WORD = re.compile(rf"[a-z]{{1,{LONGEST_WORD}}}")
SUFFIXES = (".py", ".txt", ".rst", ".md")

Keys = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]


class InputError(Exception):
    """The text cannot be counted; says why, and what to do."""


class Dictionary:
    """The words behind the keys that this rank knows."""

    def __init__(self, words: Iterable[str]) -> None:
        self.keys: list[int] = []
        self._words: dict[int, str] = {}
        for word in words:
            key = key_of(word)
            other = self._words.setdefault(key, word)
            if other != word:
                raise InputError(f"{word!r} and {other!r} have the same key {key:#x}")
            self.keys.append(key)

    def check(self, comm: innet.Communicator) -> None:
        """Make sure that no other rank means another word by one of this rank's keys.

        Each rank gives, for each of its keys, 1 in the upper and a second hash of the word in the
        lower bits; the sum of a key that `n` ranks know must be `n` times that of one of them.
        """
        mine = np.array([(1 << 44) + check_of(self._words[key]) for key in self.keys], np.int64)
        reduced = comm.reduce_by_key(np.array(self.keys, np.uint64), mine)
        assert reduced is not None
        place = np.searchsorted(reduced[0], np.array(self.keys, np.uint64))
        wrong = np.flatnonzero(reduced[1][place] != mine * (reduced[1][place] >> 44))
        if len(wrong):
            word = self._words[self.keys[wrong[0]]]
            raise InputError(f"another rank has another word with the key of {word!r}")

    def words_of(self, comm: innet.Communicator, keys: Keys) -> list[str]:
        """The words of ``keys``, each of which some rank knows; every rank calls it."""
        letters = np.zeros((len(keys), LONGEST_WORD), np.uint8)
        for row, key in zip(letters, keys.tolist(), strict=True):
            word = self._words.get(key, "").encode()
            row[: len(word)] = np.frombuffer(word, np.uint8)
        # Ranks that know a word have the same letters, the others zeros.
        known = comm.allreduce(letters, "max")
        return [bytes(row).rstrip(b"\0").decode() for row in known]


@dataclass(frozen=True)
class Result:
    """One way to count, as ``--output`` saves it.

    Attributes:
        algorithm: where counts of equal words were added.
        seconds: to add the counts of all ranks, the median of all repetitions.
        busiest_link_bytes: on the host's link that carried the most, for one repetition.
        words: different words.
        total: all words.
        equals_counter: `collections.Counter` over all files gives the same, if that was asked for.
    """

    algorithm: str
    seconds: float
    busiest_link_bytes: int
    words: int
    total: int
    equals_counter: bool | None


def key_of(word: str) -> int:
    """A word's key: 64 bits of its BLAKE2b hash."""
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


def check_of(word: str) -> int:
    """A second hash of a word, of 32 bits."""
    digest = hashlib.blake2b(word.encode(), digest_size=4, person=b"check").digest()
    return int.from_bytes(digest, "little")


def find_texts(paths: Sequence[Path]) -> list[Path]:
    """The files to count, largest first: those given, and the texts in the directories given.

    Raises:
        InputError: a path does not exist, or there is nothing to count.
    """
    found: set[Path] = set()
    for path in paths or [Path(sysconfig.get_paths()["stdlib"])]:
        if path.is_dir():
            texts = (text for text in path.rglob("*") if text.suffix in SUFFIXES)
            found.update(text for text in texts if "site-packages" not in text.parts)
        elif path.is_file():
            found.add(path)
        else:
            raise InputError(f"there is no {path}; give files or directories that exist")
    if not found:
        raise InputError(f"no {', '.join(SUFFIXES)} in {', '.join(map(str, paths))}")
    return sorted(found, key=lambda text: (-text.stat().st_size, str(text)))


def count_words(texts: Iterable[Path]) -> Counter[str]:
    """How often each word is in the files: letters a to z, whatever their case."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(WORD.findall(text.read_text("utf-8", errors="ignore").lower()))
    return counts


def add_up(
    algorithm: str, keys: Keys, counts: Counts, repetitions: int
) -> tuple[Keys, Counts, innet.Cost]:
    """The counts of all ranks by key, added by ``algorithm``, and what a repetition cost."""
    comm = innet.init(
        group=f"words-{algorithm.replace(':', '-').replace('=', '-')}", algorithm=algorithm
    )
    # The first one warms up: memory that is touched for the first time, round trips not known yet.
    reduced = comm.reduce_by_key(keys, counts)
    costs = []
    for _ in range(repetitions):
        reduced, cost = innet.measure(comm, lambda: comm.reduce_by_key(keys, counts))
        costs.append(cost)
    assert reduced is not None
    return *reduced, sorted(costs, key=lambda cost: cost.seconds)[len(costs) // 2]


def same_as_counter(counted: Counter[str], keys: Keys, counts: Counts) -> bool:
    """Whether the pairs say what ``counted`` does."""
    return {key_of(word): count for word, count in counted.items()} == dict(
        zip(keys.tolist(), counts.tolist(), strict=True)
    )


def table_of(results: Sequence[Result]) -> Table:
    """The comparison, for people."""
    table = Table(title="Adding up the counts of all hosts")
    for heading in ("counts added", "time ms", "busiest link MB", "times as fast", "= Counter"):
        table.add_column(heading, justify="left" if heading == "counts added" else "right")
    slowest_s = max(result.seconds for result in results)
    for result in results:
        equal = {True: "yes", False: "NO", None: "-"}[result.equals_counter]
        table.add_row(
            place_of(result.algorithm),
            f"{result.seconds * 1e3:.1f}",
            f"{result.busiest_link_bytes / 1e6:.2f}",
            f"{slowest_s / result.seconds:.2f}",
            equal,
        )
    return table


def save(results: Sequence[Result], top: Sequence[tuple[str, int]], directory: Path) -> None:
    """Write the results as JSON, and a picture of them."""
    from matplotlib.figure import Figure

    directory.mkdir(parents=True, exist_ok=True)
    record = {"results": [asdict(result) for result in results], "top": top}
    (directory / "wordcount.json").write_text(json.dumps(record, indent=2))
    figure = Figure(figsize=(10, 3.5), layout="constrained")
    times, links = figure.subplots(1, 2)
    algorithms = [result.algorithm for result in results]
    times_ms = [result.seconds * 1e3 for result in results]
    draw_bars(times, algorithms, times_ms, unit="milliseconds", title="Time to add the counts")
    draw_busiest_link(links, algorithms, [result.busiest_link_bytes for result in results])
    figure.savefig(directory / "wordcount.png", dpi=120)


def run(arguments: argparse.Namespace) -> bool:
    """Count on all ranks; false when a result differs from `collections.Counter`'s."""
    comm = innet.init()
    texts = find_texts(arguments.texts)
    counted = count_words(texts[comm.rank :: comm.size])
    dictionary = Dictionary(counted)
    dictionary.check(comm)
    keys = np.array(dictionary.keys, np.uint64)
    counts = np.fromiter(counted.values(), np.int64, len(counted))
    everything = count_words(texts) if comm.rank == 0 and arguments.check else None
    results = []
    for algorithm in arguments.algorithms:
        found, sums, cost = add_up(algorithm, keys, counts, arguments.repetitions)
        results.append(
            Result(
                algorithm,
                cost.seconds,
                cost.busiest_link_bytes,
                len(found),
                int(sums.sum()),
                None if everything is None else same_as_counter(everything, found, sums),
            )
        )
    most = np.argsort(-sums, kind="stable")[: arguments.top]
    words = dictionary.words_of(comm, found[most])
    if comm.rank != 0:
        return True
    top = list(zip(words, sums[most].tolist(), strict=True))
    console = Console(width=100)
    console.print(
        f"{results[0].total:,} words in {len(texts):,} files, {len(found):,} of them different"
    )
    console.print(table_of(results))
    console.print("most frequent: " + ", ".join(f"{word} {count:,}" for word, count in top))
    save(results, top, arguments.output)
    console.print(f"saved: {arguments.output}/wordcount.json and .png")
    return all(result.equals_counter is not False for result in results)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argument_parser(__doc__ or "", "add", Path("results/wordcount"))
    parser.add_argument(
        "texts",
        nargs="*",
        type=Path,
        metavar="FILE|DIR",
        help=f"what to count; of directories all {', '.join(SUFFIXES)}. Default: Python's library",
    )
    parser.add_argument("--top", type=int, default=10, help="how many words to print (default: 10)")
    parser.add_argument(
        "--repetitions", type=int, default=5, help="of each measurement (default: 5)"
    )
    parser.add_argument(
        "--no-check",
        dest="check",
        action="store_false",
        help="do not count everything again with collections.Counter on rank 0",
    )
    arguments = parser.parse_args()
    if arguments.repetitions < 1 or arguments.top < 0:
        parser.error("--repetitions must be at least 1 and --top at least 0")
    return arguments


def main() -> int:
    """Count; the exit status."""
    try:
        return 0 if run(parse_arguments()) else 1
    except (InnetError, InputError, OSError) as error:
        print(f"wordcount: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
