"""Traces: what they mean, and how what is wrong is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from innet.errors import WorkloadError
from innet.lab.traces import load_trace

SLICE = Path(__file__).resolve().parents[2] / "workloads" / "traces" / "conversation.jsonl"
AZURE = "\ufeffTIMESTAMP,ContextTokens,GeneratedTokens\n"


def test_requests_of_mooncake_have_their_times_lengths_and_prefixes() -> None:
    requests = load_trace(SLICE, SLICE.read_text())
    first, second = requests[:2]
    assert len(requests) == 300
    assert (first.arrival_s, first.input_tokens, first.output_tokens) == (0.0, 6758, 500)
    assert requests[-1].arrival_s == 102.0
    assert len(first.blocks) == 14
    assert first.blocks[0] == second.blocks[0]
    assert not set(first.blocks[1:]) & set(second.blocks[1:])


def test_requests_of_azure_share_no_prefix() -> None:
    text = AZURE + "2023-11-16 18:15:46.6805900,374,44\n" + "2023-11-16 18:15:50.9951690,1025,109\n"
    first, second = load_trace(Path("trace.csv"), text)
    assert second.arrival_s == pytest.approx(4.314579, abs=1e-6)
    assert (len(first.blocks), len(second.blocks)) == (1, 3)
    assert len({*first.blocks, *second.blocks}) == 4


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.txt", "", "jsonl.*csv"),
        ("t.jsonl", "", "at least one request"),
        ("t.jsonl", "\nnonsense\n", "t.jsonl:2: "),
        ("t.jsonl", '{"timestamp": 0, "input_length": 1}', "t.jsonl:1: output_length: "),
        (
            "t.jsonl",
            '{"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [4]}',
            "t.jsonl:1: input_length: 513",
        ),
        (
            "t.jsonl",
            '{"timestamp": 5, "input_length": 5, "output_length": 1, "hash_ids": [4]}\n'
            '{"timestamp": 4, "input_length": 5, "output_length": 1, "hash_ids": [4]}',
            "t.jsonl:2: timestamp: before",
        ),
        ("t.csv", "a,b\n", "t.csv:1: expected the header"),
        ("t.csv", AZURE, "at least one request"),
        ("t.csv", AZURE + "yesterday,1,2\n", "t.csv:2: "),
        ("t.csv", AZURE + "2023-11-16 18:15:46,0,2\n", "t.csv:2: .*at least one token"),
    ],
)
def test_mistakes_are_reported_with_their_line(name: str, text: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        load_trace(Path(name), text)
