"""``innet kv serve``: a standing pool, and processes that attach to it by its name."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from innet.cluster.emulation.runs import find_run
from innet.topology import Switch, load_topology

from .conftest import processes_of
from .runs import INNET, TIMEOUT_S, innet, invoked, read_until, started

ENGINE = Path(__file__).parents[1] / "kv" / "workers" / "attached_engine.py"
BLOCKS = range(8)
FILE = """
name: prod
topology: star:2
pool:
  engines: 1
  folder: blocks
  objects-url: file://{folder}/objects
  tenants:
    acme: {{secret: acme.secret, memory: 1MiB, disk: 64MiB, objects: 64MiB}}
"""


class Engine:
    """A process that has attached, and does as it is told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.node = self._line().removeprefix("at ")

    def ask(self, verb: str, number: int) -> str:
        """Put a block, or get one."""
        assert self.process.stdin is not None
        print(verb, number, file=self.process.stdin, flush=True)
        return self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def engine(folder: Path, *, waits: bool = False, **options: object) -> Iterator[Engine]:
    """An engine without ``innet run``; it may start before its pool."""
    options = {"address": "prod", "tenant": "acme", "secret": f"{folder}/acme.secret"} | options
    command = [sys.executable, str(ENGINE), json.dumps(options), *(["waits"] if waits else [])]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield Engine(process)
        except BaseException:
            process.kill()
            print(process.communicate()[1])
            raise
        output, errors = process.communicate(timeout=TIMEOUT_S)
        assert (output, process.returncode) == ("", 0), errors


def until_said(engine: Engine, text: str) -> None:
    """Wait for a line of an engine's log."""
    assert engine.process.stderr is not None
    for line in engine.process.stderr:
        if text in line:
            return
    raise AssertionError(f"it has ended without saying {text!r}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pool")
    (made / "pool.yaml").write_text(FILE.format(folder=made))
    for name in ("acme", "other"):
        secret = made / f"{name}.secret"
        secret.touch(mode=0o600)
        secret.write_text(f"{name}, and nobody can guess the rest")
    return made


@pytest.fixture(scope="module")
def pool(registry: Path, folder: Path) -> Iterator[Path]:
    """The folder of a pool that is up, with blocks from before on one disk and in the object
    storage behind the disk that was lost."""
    with started("kv", "serve", str(folder / "pool.yaml")) as first:
        lines = read_until(first, "innet down prod")
        assert any("acme on 2 hosts" in line for line in lines)
        with engine(folder) as writer:
            assert {writer.ask("put", number) for number in BLOCKS} == {"put 1"}
        first.send_signal(signal.SIGINT)
        assert first.wait(TIMEOUT_S) == 130
        assert processes_of(registry) == []
    [lost] = (folder / "blocks").rglob("*h0.0*")
    shutil.rmtree(lost)
    up = subprocess.run(
        [*INNET, "kv", "serve", str(folder / "pool.yaml"), "--detach"],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert up.returncode == 0, up.stderr
    yield folder
    assert innet("down", "prod").stdout == "prod: ended\n"
    assert processes_of(registry) == []


def test_an_interrupt_while_members_start_ends_them_once(registry: Path, folder: Path) -> None:
    with started("kv", "serve", str(folder / "pool.yaml"), "--name", "starting") as starting:
        while not any("innet.kv.service.member" in line for line in processes_of(registry)):
            assert starting.poll() is None
        starting.send_signal(signal.SIGINT)
        _, errors = starting.communicate(timeout=TIMEOUT_S)
        assert (starting.returncode, errors) == (130, ""), "none was started again"
    assert processes_of(registry) == []


def test_members_without_their_folder_say_so_in_a_sentence(folder: Path, registry: Path) -> None:
    (folder / "file").touch()
    text = FILE.format(folder=folder).replace("folder: blocks", "folder: file/blocks")
    (folder / "nowhere.yaml").write_text(text)
    failed = innet("kv", "serve", str(folder / "nowhere.yaml"), "--name", "nowhere")
    assert failed.returncode == 1
    assert "cannot start: blocks cannot be kept in" in failed.stderr
    assert "Name a folder that can be created" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert "starting it anew" not in failed.stderr
    assert processes_of(registry) == []


def test_engines_join_again_when_the_launcher_was_killed(registry: Path, folder: Path) -> None:
    text = FILE.replace("  folder: blocks\n", "").replace(
        "  objects-url: file://{folder}/objects\n", ""
    )
    text = text.format(folder=folder).replace(", disk: 64MiB, objects: 64MiB", "")
    (folder / "memory.yaml").write_text(text)
    serve = ("kv", "serve", str(folder / "memory.yaml"), "--name", "again")
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(started(*serve))
        read_until(first, "innet down again")
        one, other = (stack.enter_context(engine(folder, address="again")) for _ in range(2))
        assert one.ask("put", 40) == "put 1"
        first.kill()
        first.wait(TIMEOUT_S)
        while one.ask("put", 41) != "put 0":  # until it knows that the network has ended
            pass
        while other.ask("get", 42) != "none":
            pass
        second = stack.enter_context(started(*serve))
        read_until(second, "innet down again")
        number = 43
        # A block that is put before all members are known is at another home.
        while one.ask("put", number) != "put 1" or other.ask("get", number) != "found":
            number += 1
        second.send_signal(signal.SIGINT)
        assert second.wait(TIMEOUT_S) == 130
    assert processes_of(registry) == []


CRASHES = """
import os, sys
if "innet.kv.service.member" in sys.orig_argv:
    print("the library is missing", flush=True)
    os._exit(7)
"""


def test_engines_start_before_their_pool_and_join_it_when_it_is_up(
    registry: Path, folder: Path
) -> None:
    text = re.sub(r"  (folder|objects-url): .*\n", "", FILE).format(folder=folder)
    text = text.replace(", disk: 64MiB, objects: 64MiB", "").replace("engines: 1", "engines: 2")
    (folder / "late.yaml").write_text(text.replace("acme:", "acme: ").replace("prod", "late"))
    serve = ("kv", "serve", str(folder / "late.yaml"))
    early = partial(engine, folder, waits=True, address="late")
    with contextlib.ExitStack() as stack:
        one, other = (stack.enter_context(early()) for _ in range(2))
        stranger = stack.enter_context(early(secret=f"{folder}/other.secret"))
        for each in (one, other, stranger):
            assert (each.node, each.ask("put", 60), each.ask("get", 61)) == (
                "unattached", "put 0", "none",
            )  # fmt: skip
        assert one.ask("get", 60) == "found"
        until_said(one, "network late is not up")
        for number in (70, 80):  # the launcher is also started a second time
            launcher = stack.enter_context(started(*serve))
            read_until(launcher, "innet down late")
            until_said(one, "this process has joined network late")
            until_said(other, "this process has joined network late")
            until_said(stranger, "no tenant acme with this secret")
            assert one.ask("put", number) == "put 1"
            assert other.ask("get", number) == "found"
            assert stranger.ask("get", number) == "none"
            launcher.kill()
            launcher.wait(TIMEOUT_S)
        assert innet("down", "late").returncode == 0


def test_a_member_that_crashes_again_and_again_ends_the_start_with_its_words(
    registry: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(CRASHES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    failed = innet("kv", "serve", str(folder / "pool.yaml"), "--name", "crashing")
    assert failed.returncode == 1
    assert "has ended again and again before it had joined" in failed.stderr
    assert "the library is missing" in failed.stderr
    assert "Mend what it says, and serve the pool again" in failed.stderr
    assert processes_of(registry) == []


def test_blocks_are_found_again_after_a_restart(pool: Path) -> None:
    with engine(pool) as one, engine(pool) as other:
        assert {one.node, other.node} == {"h0.1", "h1.1"}, "each has a worker of its own"
        assert {each.ask("get", n) for each in (one, other) for n in BLOCKS} == {"found"}
        options = json.dumps({"address": "prod", "secret": f"{pool}/other.secret"})
        for host, room in ((None, "2 engines in all"), ("h0", "1 engine on h0")):
            wish = {} if host is None else {"INNET_HOST": host}
            full = subprocess.run(
                [sys.executable, str(ENGINE), options],
                capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
                env=os.environ | wish,
            )  # fmt: skip
            assert f"the pool of network prod has room for {room}" in full.stderr
            assert "larger number of `engines`" in full.stderr


def test_a_member_that_dies_is_restarted_with_its_disk(pool: Path) -> None:
    members = [p.identity for p in find_run("prod").processes if p.node in ("h0.0", "h1.0")]
    assert len(members) == 2
    members[0].send_signal(signal.SIGKILL)
    with engine(pool) as reader:
        while reader.ask("get", 0) != "found" or reader.ask("get", 1) != "found":
            pass
        assert {reader.ask("get", number) for number in BLOCKS} == {"found"}


def test_a_process_without_the_tenants_secret_is_told_so(pool: Path) -> None:
    options = {"address": "prod", "tenant": "acme", "secret": f"{pool}/other.secret"}
    refused = subprocess.run(
        [sys.executable, str(ENGINE), json.dumps(options)],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert "the pool at prod has no tenant acme with this secret" in refused.stderr
    with engine(pool) as free:
        assert free.node == "h0.1", "what was refused has given its worker back"


def test_a_member_that_leaves_hands_its_blocks_over(pool: Path) -> None:
    with engine(pool) as one:
        assert {one.ask("put", number) for number in range(20, 30)} == {"put 1"}
    missing = innet("kv", "leave", "h7", "--on", "prod")
    assert "no member of a pool on h7; it has them on h0, h1" in missing.stderr
    left = innet("kv", "leave", "h1", "--on", "prod")
    assert left.stdout == "h1 has left the pool\n", left.stderr
    with engine(pool) as one:
        assert {one.ask("get", number) for number in (*BLOCKS, *range(20, 30))} == {"found"}
    [tenant] = json.loads(innet("status", "prod", "--json").stdout)["pools"]
    assert list(tenant["members"]) == ["h0.0"]
    assert innet("kv", "leave", "h1").stdout == "h1 has left the pool\n", "it has left already"
    last = innet("kv", "leave", "h0", "--on", "prod")
    assert last.returncode == 1
    assert "h0 has the last member of prod, so no other can take its blocks. End the" in last.stderr
    with engine(pool) as one:
        assert {one.ask("get", number) for number in (*BLOCKS, *range(20, 30))} == {"found"}


def test_status_names_tenants_and_the_start_says_where_metrics_are(
    registry: Path, folder: Path
) -> None:
    text = FILE.format(folder=folder).replace("folder: blocks", "folder: others")
    (folder / "measured.yaml").write_text(text.replace("/objects\n", "/other-objects\n"))
    serve = ("kv", "serve", str(folder / "measured.yaml"), "--name", "measured", "--detach")
    up = innet(*serve, "--metrics-port", "0")
    assert up.returncode == 0, up.stderr
    url = re.search(r"  metrics:    (http://127.0.0.1:\d+/metrics)\n", up.stdout)
    assert url is not None, up.stdout
    assert f"metrics: {url[1]}" in innet("status", "measured").stdout
    [pool] = json.loads(innet("status", "measured", "--json").stdout)["pools"]
    assert pool["name"] == "acme"
    assert f"acme ({pool['tenant'][:8]})" in innet("status", "measured").stdout
    assert innet("down", "measured").returncode == 0


def test_options_replace_the_links_of_the_file(registry: Path, folder: Path) -> None:
    text = re.sub(r"  (folder|objects-url): .*\n", "", FILE).format(folder=folder)
    (folder / "slow.yaml").write_text(text.replace(", disk: 64MiB, objects: 64MiB", ""))
    serve = ("kv", "serve", str(folder / "slow.yaml"), "--name", "slow", "--detach")
    up = innet(*serve, "--rate", "200mbit", "--delay", "1ms", "--slots", "0")
    assert up.returncode == 0, up.stderr
    topology = load_topology(str(find_run("slow").topology_path))
    [switch] = topology.separate_switches
    links = topology.links_of[switch].values()
    assert {(link.rate_bps, link.delay_s) for link in links} == {(200e6, 1e-3)}
    node = topology.nodes[switch]
    assert isinstance(node, Switch)
    assert node.slots == 0
    assert innet("down", "slow").returncode == 0


@pytest.mark.parametrize("option", ["--rate", "--delay", "--loss", "--queue", "--mtu"])
def test_links_that_cannot_be_are_refused(registry: Path, folder: Path, option: str) -> None:
    refused = invoked("kv", "serve", str(folder / "pool.yaml"), option, "nonsense")
    assert refused.returncode == 2
    assert option in refused.stderr
    assert "nonsense" in refused.stderr


def kv(verb: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    secret = ("--on", "prod", "--tenant", "acme", "--secret", str(folder / "acme.secret"))
    return innet("kv", verb, *secret, *arguments)


def test_blocks_are_listed_pinned_and_purged_at_all_processes_and_tiers(pool: Path) -> None:
    with engine(pool, memory="1MiB") as one:
        for number in range(100, 108):
            one.ask("put", number)
        with engine(pool, memory=0) as other:  # the switch caches what it gets
            assert {other.ask("get", number) for number in range(100, 108)} == {"found"}
        listed = kv("list", pool, "--json")
        assert listed.returncode == 0, listed.stderr
        [blocks] = json.loads(listed.stdout)["blocks"]
        held = json.loads(listed.stdout)["processes"]
        assert sum(each["blocks"] for each in held[one.node]) == 8, "what the engine itself has"
        assert blocks["blocks"] >= 16 + len(BLOCKS)
        assert f"{blocks['blocks']} blocks at " in kv("list", pool).stdout

        digest = blocks["model_digest"]
        pinned = kv("pin", pool, "--model", digest[:8], "--lease", "1min", "--json")
        assert json.loads(pinned.stdout)["blocks"][0]["blocks"] > 0
        tried = kv("purge", pool, "--all", "--dry-run")
        assert "would be dropped" in tried.stdout
        assert one.ask("get", 100) == "found"
        purged = kv("purge", pool, "--model", digest)
        assert purged.returncode == 0, purged.stderr
        assert f"{blocks['blocks']} blocks dropped" in purged.stdout
        assert "processes have answered" in purged.stderr
        assert [one.ask("get", number) for number in (100, 107, *BLOCKS)] == ["none"] * 10
        with engine(pool, memory=0) as other:
            assert {other.ask("get", number) for number in range(100, 108)} == {"none"}
        assert "0 blocks" in kv("list", pool).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say which blocks"),
        (("--all", "--model", "x"), "leave it out"),
        (("--model", "llama"), "the pool has no blocks of model llama"),
        (("--older-than", "0s"), "at least 1"),
        (("--all", "--tokens", "1", "--tokens-file", "x"), "either --tokens or"),
    ],
)
def test_a_purge_without_a_choice_or_of_nothing_is_refused(
    pool: Path, arguments: tuple[str, ...], said: str
) -> None:
    refused = kv("purge", pool, *arguments)
    assert refused.returncode in (1, 2)
    assert said in " ".join(refused.stderr.split()).replace("│ │ ", "")


def test_another_tenants_secret_purges_nothing(pool: Path) -> None:
    refused = innet(
        "kv", "purge", "--on", "prod", "--tenant", "acme",
        "--secret", str(pool / "other.secret"), "--all",
    )  # fmt: skip
    assert refused.returncode == 1
    assert "has no tenant acme with this secret" in refused.stderr
