"""Changes to the pages' commands before a test runs them, and commands that it leaves out."""

from __future__ import annotations

import re

_SKIPPED = {
    r"^make |&& make |; make ": "a target of its own, which the continuous integration runs",
    r"TORCH_SUITE_BACKEND=": "a target of its own",
    r"lmcache|vllm|sglang": "needs an inference engine; `make kv-adapters` runs the adapters",
    r"--mode netns": "needs network namespaces; the tests marked netns run that mode",
    r"torchrun|apps/(with_|train_(gpt|async)|federated|kv_serving)": "long; `make jobs` runs these",
    r"0\.0\.0\.0": "would listen on all addresses of this machine",
    r"--listen|node join|rack": "needs other machines; tests/cluster/several_machines runs them",
    r"kv (locate|index)|/v1/locate|engine_router": "needs members that publish; see tests/cli",
    r"dynamo\.indexer|/register ": "needs NVIDIA Dynamo; `make kv-adapters` runs its indexer",
    r"kv serve": "needs a file of a pool; tests/cli/test_kv_serve.py serves one",
    r"broker\.example": "needs a broker on another machine",
    r"tests\.swarm --scenario": "FILE stands for what an earlier command has printed",
    r"tests\.swarm \d+ --shrink": "only a seed that fails can be shrunk",
    r"\bpip\b|source ": "changes an environment",
    r"--broker-port 1883|--port 9464|--metrics-port 9464|1883": "takes a port of the machine",
    r"--policy job --run ID|trust anchor j1": "needs a job under way",
    r"python -m http": "serves until it is ended",
}
"""Patterns of commands that do not run, and why."""

_CHANGED = (
    (r"^innet demo$", "innet demo star:2 --mode local --epochs 1"),
    (r"^innet forwarder.*?(?=$| --strategy)", r"innet forwarder --unix ndn.sock --no-tcp --no-udp"),
    (r"^(innet up (?!.*--detach).*)$", r"\1 --detach"),
    (r"^innet compare star8$", "innet compare star4 --quick --sizes 4KiB --algorithms inc,ring"),
    (r"fat-tree:16 allreduce:100MB", "fat-tree:4 allreduce:1MB"),
    (r"fat-tree:8 allreduce:1MiB", "fat-tree:4 allreduce:64KiB"),
    (r"(allreduce):16MiB", r"\1:256KiB"),
    (r"64KiB,1MiB,16MiB", "16KiB,64KiB"),
    (r"--seeds \d+", "--seeds 2"),
    (r"steps=2", "steps=1"),
    (r"--cache 2GiB,8GiB --policy lru,s3fifo", "--cache 64MiB --policy lru,s3fifo --block 64KiB"),
    (r"^(innet kv replay trace.jsonl)$", r"\1 --block 64KiB"),
    (r"--requests 50 --time-scale 0.2", "--requests 5 --time-scale 0.01 --block 64KiB"),
    (r"cache=8GiB,requests=1000", "cache=64MiB,requests=20,block=64KiB"),
    (r"(workloads/[\w-]+\.yaml)", r"\1 --repetitions 1"),
    (r"--seconds \d+", "--seconds 1"),
    (r"\bstar8\b", "star:3"),
    (r"\bserver=h3\b", "server=h2"),
    (r"^(innet trust explain /lab/bob/.*)$", r"\1; test $? = 3"),  # it says no
    (r"\bleaf-spine:4x2x4\b", "leaf-spine:2x1x2"),
    (r"h0-h3", "h0-h1"),
    (r"h4-h7", "h2"),
    (r"s0,h3--s1", "s0,h0--s0"),
    (r"tcpdump\.pcap", "lab.pcapng"),
    (r"--encrypt", ""),
)
"""Replacements, in turn: smaller networks and sizes, and no terminal that is taken."""


def reason_to_skip(command: str) -> str | None:
    """Why a command cannot run here, if so."""
    return next((why for pattern, why in _SKIPPED.items() if re.search(pattern, command)), None)


def adapted(command: str) -> str:
    """The command that runs in its place."""
    text = re.sub(r"\s+#\s.*$", "", command).rstrip(" &")
    for pattern, replacement in _CHANGED:
        text = re.sub(pattern, replacement, text)
    return text


_ALICE = (
    "innet keys new /lab",
    "innet keys new /lab/alice",
    "innet keys export /lab/alice -o alice.request",
    "innet keys issue --request alice.request --issuer /lab -o alice.cert",
    "innet keys import alice.cert",
)
PRELUDES = {"docs/ndn.md": _ALICE, "docs/commands.md": _ALICE}
"""Commands that each page takes for granted."""
