"""A result equals the plan's expression evaluated with NumPy, to the bit, over any network."""

import pytest

from innet.topology import load_topology

SEED = 20260
# What adds is the same everywhere, so one placement shows that every type can be reduced; others,
# that the right operands come to it.
TYPES = ["f32", "bf16", "i64"]


# Within one process, tests/collectives/test_hostile_network.py has all of these.
@pytest.mark.jobs
@pytest.mark.parametrize("algorithm", ["inc", "ps", "ring", "halving-doubling"])
def test_the_result_equals_the_expression_to_the_bit(run_job, algorithm):
    print("seed", SEED)
    result = run_job("exact_bits.py", [str(SEED), *TYPES], algorithm=algorithm)
    assert result.failure == ""
    assert all(result.said(f"h{rank}") == "all equal" for rank in range(4))


def test_the_result_equals_the_expression_on_two_levels_of_faulty_links(run_job):
    print("seed", SEED)
    impaired = load_topology("leaf-spine:2x2x2").with_overrides(
        loss=0.01, jitter_s=1e-4, reorder=0.02, reorder_delay_s=2e-3, duplicate=0.05, corrupt=0.01
    )
    result = run_job("exact_bits.py", [str(SEED)], topology=impaired)
    assert result.failure == ""
    assert all(result.said(f"h{rank}") == "all equal" for rank in range(4))
    for impairment in ("dropped_loss", "duplicated", "corrupted", "reordered"):
        happened = sum(
            link["port"][impairment] for node in result.status.values() for link in node["links"]
        )
        assert happened > 0, f"the test needs packets that were {impairment}"
