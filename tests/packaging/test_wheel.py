"""The wheel in ``dist/`` installs and runs without a compiler, a checkout or a network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import zipfile
from email.parser import Parser
from pathlib import Path
from platform import machine

import pytest
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

from innet.cli.build_information import commit

ROOT = Path(__file__).parents[2]
DEMO_LIMIT_S = 120
IMPORT_LIMIT_US = 200_000
FOR_DEVELOPERS = {"dev"}
NAMESPACE = [str(shutil.which("unshare")), "--user", "--map-root-user", "--net"]
# Loopback is down in a new namespace.
WITH_LOOPBACK = """
import fcntl, os, socket, struct, sys
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
os.execv(sys.argv[1], sys.argv[1:])
"""

# Serves a recording as ``innet watch FILE --web`` does, and prints what the page loads.
FETCH_PAGE = """
import re, subprocess, sys
from urllib.parse import urljoin
from urllib.request import urlopen

command = ["innet", "watch", sys.argv[1], "--web"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
    try:
        link = next(m[0] for line in server.stdout if (m := re.search(r"http://\\S+", line)))
        pending, seen = [urljoin(link, "/")], set()
        while pending:
            if (url := pending.pop()) not in seen:
                seen.add(url)
                answer = urlopen(url)
                print(url, answer.status)
                text = answer.read().decode()
                found = re.findall(r'(?:src=|href=|from ?)"([./][^"]+)"', text)
                pending += [urljoin(url, path) for path in found]
    finally:
        server.terminate()
"""
LICENCES = {"libcrypto": "openssl", "libsodium": "libsodium"}
if machine() == "x86_64":
    LICENCES["libIPSec_MB"] = "ipsec-mb"
"""The licence of each library that a wheel brings with it."""
NOT_FOR_USERS = re.compile(r"(^|/)(tests?|node_modules|results|docs)/|\.(innetrec|png|[ch]pp)$")

# pip takes its time beside other tests.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def wheel_in_dist() -> Path | None:
    """The wheel that pip would choose for this Python, if there is one."""
    places = {tag: place for place, tag in enumerate(sys_tags())}
    fitting = [
        (min(places[tag] for tag in tags & places.keys()), path)
        for path in (ROOT / "dist").glob("innet-*.whl")
        if (tags := parse_wheel_filename(path.name)[-1]) & places.keys()
    ]
    return min(fitting)[1] if fitting else None


def contents(wheel: Path, name_end: str) -> str:
    """The text of the file of a wheel whose path ends so; empty where there is none."""
    with zipfile.ZipFile(wheel) as archive:
        names = (name for name in archive.namelist() if name.endswith(name_end))
        return next((archive.read(name).decode() for name in names), "")


def extras() -> list[str]:
    """What the wheel's metadata declares for users."""
    if WHEEL is None:
        return []
    metadata = Parser().parsestr(contents(WHEEL, ".dist-info/METADATA"))
    return sorted({*metadata.get_all("Provides-Extra", [])} - FOR_DEVELOPERS)


WHEEL = wheel_in_dist()


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The wheel of the commit that is checked out."""
    if WHEEL is None:
        pytest.skip("dist/ has no wheel for this Python: `make wheel` builds it and runs this")
    built_from = contents(WHEEL, "innet/commit.txt").strip()
    if built_from != commit():
        pytest.skip(f"dist/ has a wheel of {built_from}, not of {commit()}: run `make wheel`")
    return WHEEL


class Environment:
    """A virtual environment whose programs see neither a network nor other programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
        subprocess.run(venv, check=True)

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        return self.run_isolated(self.path(program), *arguments)

    def run_isolated(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a network namespace of its own, with the environment as its PATH."""
        return subprocess.run(
            [*NAMESPACE, self.path("python"), "-c", WITH_LOOPBACK, *command],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder.parent,
            env={"PATH": str(self.folder / "bin"), "HOME": str(self.folder.parent)},
        )

    def path(self, program: str) -> str:
        """Where a program of the environment is."""
        return str(self.folder / "bin" / program)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel and its dependencies, which were downloaded before."""
    return environment_with(wheel, "", tmp_path_factory.mktemp("wheel"))


def environment_with(wheel: Path, extras: str, folder: Path) -> Environment:
    """A new environment in which the wheel with ``extras``, such as ``[web]``, was installed."""
    if shutil.which("unshare") is None or subprocess.run([*NAMESPACE, "/bin/true"]).returncode:
        pytest.skip("this machine allows no namespaces (`unshare --user --net true` fails)")
    downloads = str(folder / "downloads")
    named = f"innet{extras} @ {wheel.as_uri()}"
    downloaded = pip("download", "--only-binary=:all:", "--dest", downloads, named)
    if downloaded.returncode:
        pytest.skip(f"the dependencies cannot be downloaded: {downloaded.stderr.strip()[-300:]}")
    environment = Environment(folder / "venv")
    install = ["install", "--no-index", "--find-links", downloads, f"innet{extras}"]
    into = ["--python", environment.path("python")]
    done = environment.run_isolated(sys.executable, "-m", "pip", *into, *install)
    assert done.returncode == 0, done.stderr
    return environment


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pip as it is configured here."""
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_package_comes_from_the_wheel_and_needs_no_heavy_library(
    installed: Environment,
) -> None:
    code = (
        "import importlib.util as util, innet, innet._native._core; print(innet.__file__, "
        "*filter(util.find_spec, ['torch', 'matplotlib', 'scapy']))"
    )
    done = installed.run("python", "-c", code)
    assert done.stdout.split() == [
        str(next(installed.folder.glob("lib/*/site-packages")) / "innet" / "__init__.py")
    ], done.stderr


def test_the_version_names_the_commit_and_the_wheel_s_own_libraries(
    wheel: Path, installed: Environment
) -> None:
    done = installed.run("innet", "--version", "--json")
    assert json.loads(done.stdout)["commit"] == commit(), done.stderr
    loaded = "import innet._native._core; print(open('/proc/self/maps').read())"
    maps = installed.run("python", "-c", loaded).stdout
    for library in LICENCES:
        assert f"{installed.folder}/lib" in next(
            line for line in maps.splitlines() if f"/{library}" in line
        )


def test_an_import_takes_under_200_ms(installed: Environment) -> None:
    # The first import reads the files from disk, and others may have the processor.
    took_us = min(import_us(installed) for _ in range(5))
    print(f"import innet: {took_us / 1000:.1f} ms")
    assert took_us < IMPORT_LIMIT_US


def import_us(environment: Environment) -> int:
    done = environment.run("python", "-X", "importtime", "-c", "import innet")
    (line,) = (line for line in done.stderr.splitlines() if line.endswith("| innet"))
    return int(line.split("|")[1])


def test_the_demonstration_ends_with_its_table_within_two_minutes(installed: Environment) -> None:
    began = time.monotonic()
    done = installed.run("innet", "demo")
    took_s = time.monotonic() - began
    print(f"innet demo: {took_s:.0f} s\n{done.stdout}")
    assert done.returncode == 0, done.stderr
    rows = {"single process", "in-network", "ring", "parameter server"}
    assert {row for row in rows if row in done.stdout} == rows
    assert took_s < DEMO_LIMIT_S


@pytest.mark.parametrize("extra", extras())
def test_an_extra_resolves(wheel: Path, extra: str) -> None:
    requirement = f"innet[{extra}] @ {wheel.as_uri()}"
    done = pip("install", "--dry-run", "--ignore-installed", "--quiet", requirement)
    assert done.returncode == 0, done.stderr


def test_the_extra_web_serves_its_page(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    environment = environment_with(wheel, "[web]", tmp_path_factory.mktemp("web"))
    recorded = ["sim", "star:2", "allreduce:64KiB", "--algorithm", "inc", "--record", "r.innetrec"]
    done = environment.run("innet", *recorded)
    assert done.returncode == 0, done.stderr
    page = environment.run("python", "-c", FETCH_PAGE, "r.innetrec")
    loaded = dict(line.split() for line in page.stdout.splitlines())
    assert set(loaded.values()) == {"200"}, page.stderr
    assert any(url.endswith("/vendor/libraries.js") for url in loaded)


def test_the_wheel_has_the_licences_of_all_its_parts(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    brought = {Path(name).name.split("-")[0] for name in names if ".libs/lib" in name}
    assert brought == LICENCES.keys()
    for licence in ("nanobind", *LICENCES.values()):
        assert contents(wheel, f"/licenses/licenses/{licence}.txt")
    assert "Copyright" in contents(wheel, "/static/vendor/LICENSES.txt")


def test_the_wheel_has_no_developer_files(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if NOT_FOR_USERS.search(name)] == []
