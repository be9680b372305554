"""A language model served by workers that share prompts: what it prints, saves and refuses."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'innet[serving]'")

from kv_serving import parse_arguments, refusal
from serving.prompts import Workload

from innet.cluster.launch import Session
from innet.topology import load_topology

pytestmark = pytest.mark.torch

KV_SERVING = Path(__file__).parents[2] / "apps" / "kv_serving.py"
SMALL = (
    *("--layers", "2", "--width", "32", "--heads", "2", "--kv-heads", "1", "--check"),
    *("--documents", "2", "--document-tokens", "80", "--question-tokens", "30"),
    *("--requests", "4", "--block-tokens", "16", "--new-tokens", "3"),
)


@pytest.mark.parametrize("options", [(), ("--by-layer", "--layers-per-block", "1")])
def test_answers_equal_those_without_the_pool_to_the_bit(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    output = tmp_path / "serving.json"
    lines: list[str] = []

    async def launch() -> None:
        async with Session(
            load_topology("star:2"), output=lambda node, line: lines.append(f"{node} {line}")
        ) as session:
            await session.run_workers(
                [sys.executable, str(KV_SERVING), *SMALL, *options, "--output", str(output)],
                env={"OMP_NUM_THREADS": "1"},
            )

    asyncio.run(launch())
    record = json.loads(output.read_text())
    assert [one["request"] for one in record["served"]] == [0, 1, 2, 3]
    # The first document, of 5 blocks, is cold; the second has 20 tokens, a block and a quarter.
    found: dict[int, set[int]] = {one["prompt_tokens"]: set() for one in record["served"]}
    for one in record["served"]:
        found[one["prompt_tokens"]].add(one["found_tokens"])
    assert found == {110: {0, 80}, 50: {16}}
    assert all(one["equal"] and one["alone_s"] > 0 for one in record["served"])
    assert record["workers"] == [1, 1, 1, 1]
    assert record["hits"]["network"] > 0
    assert any("1/1 documents are in the pool" in line for line in lines)
    assert any("all answers are equal" in line for line in lines)
    assert output.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_requests_about_a_document_begin_alike() -> None:
    workload = Workload.of_standard_library(
        documents=2, document_tokens=50, requests=9, question_tokens=7, seed=5
    )
    assert [request.number for request in workload.requests] == list(range(9))
    for request in workload.requests:
        document = workload.documents[request.document]
        assert (request.tokens[:-7] == document).all()
    questions = {request.tokens[-7:].tobytes() for request in workload.requests}
    assert len(questions) == 9
    assert workload.longest_tokens == 57


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prefill-workers", "4"], "from 1 to 3"),
        (["--requests", "0"], "at least 1"),
        (["--cold-documents", "5"], "from 0 to 4"),
        (["--width", "30", "--heads", "8"], "multiple of 8"),
        (["--heads", "8", "--kv-heads", "3"], "multiple of 3"),
        (["--width", "24", "--heads", "8"], "pairs"),
        (["--layers-per-block", "0"], "at least 1"),
        (["--deadline-s", "-1"], "at least 0"),
        (["--seed", "-1"], "at least 0"),
        (["--by-layer", "--load-or-compute"], "leave out --by-layer"),
        (["--output", "serving.txt"], "end it in .json"),
    ],
)
def test_invalid_options_are_refused(options: list[str], message: str) -> None:
    assert message in (refusal(parse_arguments(options), ranks=4) or "")
    assert refusal(parse_arguments([]), ranks=4) is None
    assert "two or more" in (refusal(parse_arguments([]), ranks=1) or "")
