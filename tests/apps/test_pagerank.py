"""PageRank by supersteps gives networkx's ranks, whoever combines the messages."""

from __future__ import annotations

import json

import pytest
from pagerank import InputError, read_edges

from innet.errors import JobFailed

pytest.importorskip("scipy", reason="networkx computes PageRank with SciPy")


def test_ranks_equal_those_of_networkx(run_app, tmp_path):
    run_app(
        *("pagerank.py", "--vertices", 300, "--tolerance", 1e-4, "--output", tmp_path),
        *("--algorithms", "inc", "ps", "ring"),
    )
    results = json.loads((tmp_path / "pagerank.json").read_text())
    assert [result["algorithm"] for result in results] == ["inc", "ps", "ring"]
    for result in results:
        assert result["difference"] < 1e-3
        assert result["busiest_link_bytes"] > 0
        # Every vertex sends at first, in the end all have voted to halt.
        assert result["messages"][0] > 150
        assert result["messages"][-1] == 0
        assert result["messages"] == results[0]["messages"]
    assert (tmp_path / "pagerank.png").stat().st_size > 0


@pytest.mark.jobs
def test_a_file_of_edges_is_read(run_app, tmp_path):
    """With a vertex that refers to nobody, one to itself, numbers with gaps, and an edge twice."""
    edges = tmp_path / "edges.txt"
    edges.write_text("# from to\n7 100\n100 7\n7 3\n3 7\n9 9\n9 3\n7 5\n7 5\n")
    run_app("pagerank.py", "--edges", edges, "--algorithms", "inc", "--output", tmp_path)
    (result,) = json.loads((tmp_path / "pagerank.json").read_text())
    assert result["difference"] < 1e-4


@pytest.mark.parametrize("content", ["", "1 two\n", "1\n"])
def test_malformed_graphs_are_reported(tmp_path, content):
    edges = tmp_path / "edges.txt"
    edges.write_text(content)
    with pytest.raises(InputError, match=r"edges.*edges\.txt"):
        read_edges(edges)


def test_a_missing_graph_ends_the_job(run_app, tmp_path):
    with pytest.raises(JobFailed, match=r"edges.*edges\.txt"):
        run_app("pagerank.py", "--edges", tmp_path / "edges.txt", topology="star:2")
