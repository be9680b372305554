"""Counting words on several hosts gives what one process counts."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter

import pytest

from innet.errors import JobFailed
from innet.topology import load_topology
from tests.apps.conftest import APPS
from tests.collectives.cluster import Cluster

TEXTS = {
    "a.txt": "It was the best of times, it was the worst of times",
    "b.md": "it was the age of wisdom; it was the age of foolishness\n" * 30,
    "c.txt": " ".join(f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(600)),
    "d.rst": "",
}


@pytest.fixture(scope="module")
def wordcount():
    """The app as a module."""
    spec = importlib.util.spec_from_file_location("wordcount", APPS / "wordcount.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["wordcount"] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def texts(tmp_path):
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "picture.png").write_text("the the the")
    return tmp_path


def test_words_of_all_hosts_are_counted(run_app, texts, tmp_path):
    output = tmp_path / "out"
    algorithms = ("inc", "ps", "ring")
    lines = run_app(
        "wordcount.py", texts, "--algorithms", *algorithms, "--output", output, "--repetitions", 1
    )
    record = json.loads((output / "wordcount.json").read_text())
    expected = Counter(re.findall("[a-z]+", " ".join(TEXTS.values()).lower()))
    assert [result["algorithm"] for result in record["results"]] == list(algorithms)
    for result in record["results"]:
        assert result["equals_counter"] is True
        assert result["words"] == len(expected)
        assert result["total"] == expected.total()
        assert result["seconds"] > 0
        assert result["busiest_link_bytes"] > 0
    assert dict(record["top"][:5]) == dict(expected.most_common(5))
    assert "= Counter" in "\n".join(lines)
    assert (output / "wordcount.png").stat().st_size > 0


def test_a_missing_file_is_named(run_app, tmp_path):
    with pytest.raises(JobFailed, match=r"there is no .*missing\.txt"):
        run_app("wordcount.py", tmp_path / "missing.txt", topology="star:2")


def test_words_with_the_same_key_are_an_error(wordcount, monkeypatch):
    monkeypatch.setattr(wordcount, "key_of", len)
    with pytest.raises(wordcount.InputError, match=r"'two' and 'one' have the same key"):
        wordcount.Dictionary(["one", "three", "two"])

    def check(comm):
        words = (["of", "one", "three"], ["of", "three"], ["two", "three"])[comm.rank]
        wordcount.Dictionary(words).check(comm)

    with Cluster(load_topology("star:3")) as cluster:
        results = cluster.run(check)
    # "of" is the same word everywhere; "one" and "two" are not, as both who have one of them see.
    assert "'one'" in str(results[0])
    assert results[1] is None
    assert "'two'" in str(results[2])


@pytest.mark.parametrize("app", ["wordcount.py", "pagerank.py"])
def test_an_app_started_without_innet_says_how_to_start_it(app):
    alone = subprocess.run(
        [sys.executable, APPS / app], capture_output=True, text=True, timeout=240, check=False
    )
    assert alone.returncode == 1
    assert "innet run" in alone.stderr
    assert "Traceback" not in alone.stderr
