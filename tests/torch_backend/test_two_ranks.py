"""Programs on two ranks over innet, in one job because PyTorch takes longer to start than they.

With communication hooks, training with fewer bytes goes as well, and what is no number is seen. The
setting says what is done with the objects that other members send.
"""

from __future__ import annotations

import pytest

from innet.errors import CollectiveError

pytestmark = pytest.mark.torch

RANKS = 2
HOOKS = ("fp16", "bf16", "q8", "topk", "blocks", "all-blocks", "powersgd")


@pytest.fixture(scope="module")
def job(run_job, tmp_path_factory):
    scripts = ["hooks.py", f"objects.py {tmp_path_factory.mktemp('objects') / 'made'}"]
    with pytest.MonkeyPatch.context() as patch:
        # PowerSGD multiplies on each rank by itself, with bits that depend on where MKL's operands
        # lie in memory.
        patch.setenv("MKL_CBWR", "COMPATIBLE")
        settings = ["security.object_collectives=weights-only"]
        result = run_job(scripts, topology=f"star:{RANKS}", settings=settings)
    assert result.failure == ""
    return result


@pytest.fixture(scope="module")
def said(job):
    return [job.said(f"h{rank}", "hooks.py").splitlines() for rank in range(RANKS)]


@pytest.mark.parametrize("name", HOOKS)
def test_training_equals_that_without_a_hook_and_replicas_stay_equal(said, name):
    for lines in said:
        assert f"{name}: same bits True, close True" in lines


@pytest.mark.parametrize("name", [name for name in HOOKS if name != "powersgd"])
@pytest.mark.parametrize("bad", ["nan", "inf", "-inf"])
def test_a_bad_gradient_of_one_rank_makes_every_rank_skip_the_step(said, name, bad):
    for lines in said:
        assert f"{name}: {bad} skipped True, scale 2.0, recovered True" in lines


def test_the_scaler_notices_gradients_beyond_float16(said):
    for lines in said:
        assert "overflow: skipped True, scale 524288.0" in lines


def test_an_error_in_a_hook_is_raised_by_backward(said):
    for lines in said:
        assert any(line.startswith("error|CollectiveError: q8_hook takes") for line in lines)


def test_only_the_used_rows_of_an_embedding_are_updated(said):
    for lines in said:
        assert "embedding: exact True" in lines


def test_withheld_blocks_are_sent_later(said):
    for lines in said:
        assert "kept back: all moved True, nothing lost True" in lines


def test_the_residual_is_saved_in_a_checkpoint(said):
    for lines in said:
        assert "checkpoint: residuals 4, close True" in lines


@pytest.mark.parametrize("ratio", [0, -0.1, 1.5, float("nan")])
def test_an_invalid_ratio_is_refused(ratio):
    from innet.torch_backend import hooks

    with pytest.raises(CollectiveError, match="not above 0 and at most 1"):
        hooks.TopKState([], ratio=ratio)
    with pytest.raises(CollectiveError, match="not above 0 and at most 1"):
        hooks.BlockSparseState([], ratio=ratio)


def test_objects_of_members_are_unpickled_only_where_allowed(job):
    """The run's setting is weights-only; the worker then takes the other two."""
    for rank in range(RANKS):
        kept = [line for line in job.said(f"h{rank}", "objects.py").splitlines() if "kept" in line]
        assert kept == ["kept to weights-only", "kept to refuse", "kept to allow"]
