"""python -m tests.swarm.mutations: does the swarm notice each of the defects beside this file?"""

from __future__ import annotations

import filecmp
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

_FOLDER = Path(__file__).parent
_REPOSITORY = _FOLDER.parents[2]
_BUILD = _REPOSITORY / "build" / "mutations"
_SOURCES = _BUILD / "source"
_OBJECTS = _BUILD / "objects"
_ROOMS = ("CMakeLists.txt", "pyproject.toml", "cmake", "transport", "switch_emulator", "innet")
_RUN = """
import runpy, sys
# The editable installation would win against the copy with the defect.
sys.meta_path = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("tests.swarm.until_noticed", run_name="__main__", alter_sys=True)
"""


def main(
    names: Annotated[list[str] | None, typer.Argument(help="defects; by default all")] = None,
    seeds: Annotated[int, typer.Option(help="at most so many for each")] = 300,
    base: Annotated[int, typer.Option(help="the first seed")] = 1,
) -> None:
    """Build the engine with each defect in a folder of its own, and run seeds until one fails."""
    patches = sorted(_FOLDER.glob("*.patch"))
    chosen = [patch for patch in patches if not names or patch.stem in names]
    _prepare()
    unnoticed = [patch.stem for patch in chosen if not _is_noticed(patch, base, seeds)]
    if unnoticed:
        typer.echo(f"not noticed: {', '.join(unnoticed)}", err=True)
        raise typer.Exit(1)


def _prepare() -> None:
    _copy_sources()
    nanobind = _output(sys.executable, "-m", "nanobind", "--cmake_dir")
    _run(
        *("cmake", "-S", str(_SOURCES), "-B", str(_OBJECTS), "-G", "Ninja"),
        *("--log-level=WARNING", "-DCMAKE_BUILD_TYPE=Release", "-DINNET_BUILD_PYTHON=ON"),
        *(f"-Dnanobind_DIR={nanobind}", f"-DPython_EXECUTABLE={sys.executable}"),
    )
    _build()


def _copy_sources() -> None:
    """What has not changed keeps its time, so that it is not compiled again; the rest is newer."""
    for room in (*_ROOMS, "tests"):
        source, target = _REPOSITORY / room, _SOURCES / room
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy_if_changed(str(source), str(target))
        else:
            ignored = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(
                source, target, dirs_exist_ok=True, ignore=ignored, copy_function=_copy_if_changed
            )


def _copy_if_changed(source: str, target: str) -> None:
    if not (Path(target).exists() and filecmp.cmp(source, target, shallow=False)):
        shutil.copyfile(source, target)


def _build() -> None:
    _run("cmake", "--build", str(_OBJECTS), "--target", "_core")
    for module in (_OBJECTS / "innet" / "_native").glob("_core*.so"):
        shutil.copy2(module, _SOURCES / "innet" / "_native")


def _is_noticed(patch: Path, base: int, seeds: int) -> bool:
    apply = ("patch", "--silent", "--strip=1", f"--directory={_SOURCES}", f"--input={patch}")
    _run(*apply)
    try:
        _build()
        command = (sys.executable, "-c", _RUN, str(_SOURCES), str(base), str(seeds))
        found = subprocess.run(command, cwd=_SOURCES, capture_output=True, text=True, check=False)
    finally:
        _run(*apply, "--reverse")
    told = (found.stdout or found.stderr).strip().splitlines()
    typer.echo(f"{patch.stem}: {told[-1] if told else 'nothing said'}")
    return found.returncode == 0


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    typer.run(main)
