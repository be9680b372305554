"""A network whose run directory is on a disk that becomes full, in a mount namespace of its own.

unshare --mount python -m tests.faults.workers.full_disk DIRECTORY: says what happens, and how
everything ends.
"""

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path

from innet.cluster.launch import Session
from innet.errors import InnetError
from innet.topology import load_topology
from tests.faults.conftest import FaultyRun, digests, run_with_faults, worker

DISK_BYTES = 1 << 20
STEPS = worker("steps.py", 100, 20000, 0.1)


def fill(directory: Path) -> Path:
    """Take what is left of a disk."""
    rubbish = directory / "rubbish"
    with rubbish.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError as error:
            print("full:", error.strerror)
    return rubbish


async def main(directory: Path) -> None:
    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 5")
        rubbish = fill(directory)
        for who, said in (("spine0", "switch spine0 is back"), ("controller", "the controller (")):
            run.kill(who)
            await run.said("innet", said)
        try:
            await run.session.run_workers(["true"], hosts=("h3",))
        except InnetError as error:
            print("another job:", error)
        for _ in range(5):
            await run.said_again("h0", "step")
        rubbish.unlink()
        print("a job with space:", await run.session.run_workers(["true"], hosts=("h3",)))

    result = await run_with_faults(
        "leaf-spine:2x2x2", STEPS, faults, mode="netns", hosts=("h0", "h1", "h2")
    )
    print("failure:", result.failure or "none")
    print("digests:", len(digests(result)))
    fill(directory)
    try:
        async with Session(load_topology("star:2"), output=lambda *_: None):
            print("launched")
    except InnetError as error:
        print("another network:", error)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout)
    disk = Path(sys.argv[1])
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "innet", disk], check=True)
    os.environ["XDG_RUNTIME_DIR"] = str(disk)
    asyncio.run(main(disk))
    print("left:", sorted(path.name for path in disk.rglob("*")))
