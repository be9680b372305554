"""Draw the figures of the documentation: .venv/bin/python scripts/figures [FOLDER].

They come from innet's own plans, bounds and simulator. They are committed in docs/images, because
README.md and the pages show them on GitHub, too; a test draws them again and compares.
"""

from __future__ import annotations

import sys
from pathlib import Path

from charts import bounds, exchange
from networks import network_adds, placements
from trust import protection

FIGURES = {
    "network-adds": network_adds,
    "placements": placements,
    "exchange": exchange,
    "bounds": bounds,
    "protection": protection,
}

if __name__ == "__main__":
    images = Path(__file__).parents[2] / "docs" / "images"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else images
    for name, draw in FIGURES.items():
        (folder / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")
