"""Names of groups: no two groups have a prefix or a key's name in common."""

from __future__ import annotations

import hashlib

from hypothesis import example, given
from hypothesis import strategies as st

from innet.cluster.control.group_plans import GroupPlans
from innet.security.group_keys import epoch_name
from innet.topology import load_topology

TOPOLOGY = load_topology("star:2")
HOSTS = ("h0", "h1")
FREE_NAME = "übergruppe 0"
LABEL_OF_IT = hashlib.blake2s(FREE_NAME.encode(), digest_size=6).hexdigest()
"""How the first part of that group's prefix is written: a name that another user may choose."""

group_names = st.one_of(
    st.sampled_from(["g0", "g0.ring", "g0/v=1", "KEY", "v=1", FREE_NAME, LABEL_OF_IT, ""]),
    st.text(max_size=20),
)


@given(st.lists(st.tuples(st.sampled_from(["/j1", "/j2"]), group_names), max_size=12))
@example([("/j1", FREE_NAME), ("/j1", LABEL_OF_IT)])
@example([("/j1", "g0"), ("/j2", "g0"), ("/j1", "g0")])
def test_no_two_groups_share_the_name_of_a_key_or_a_prefix(groups):
    epochs: list[str] = []
    prefixes: list[str] = []
    for generation in (0, 1):  # a controller, and the one that replaces it
        plans = GroupPlans(TOPOLOGY, generation)
        for job, name in groups:
            number, made = plans.make(job, name, "auto", HOSTS)
            epochs.append(epoch_name(tuple(made), number))
            prefixes += made
    assert len(set(epochs)) == len(epochs)
    assert len(set(prefixes)) == len(prefixes)


def test_the_label_that_the_first_example_is_about_begins_with_a_letter():
    """Only then is it a plain name, which becomes a label as it is."""
    assert LABEL_OF_IT[0].isalpha()
