"""The command line of an app that compares places to combine pairs by key."""

from __future__ import annotations

import argparse
from pathlib import Path


def argument_parser(documentation: str, verb: str, output: Path) -> argparse.ArgumentParser:
    """A parser with the options of every such app.

    Args:
        documentation: of the program: a summary, an empty line, and examples.
        verb: what the app does with pairs of the same key.
        output: where rank 0 saves by default.
    """
    description, _, examples = documentation.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description,
        epilog="examples:\n" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--algorithms",
        nargs="+",
        default=["inc", "ps"],
        metavar="ALGORITHM",
        help=f"where to {verb}: inc, ps, ring, ps:server=h3, ... (default: inc ps)",
    )
    parser.add_argument("--output", type=Path, default=output, help="where rank 0 saves")
    return parser
