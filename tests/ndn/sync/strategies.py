"""State vectors for hypothesis."""

from hypothesis import strategies as st

from innet.ndn import Name
from innet.ndn.sync import Member, StateVector

members = st.builds(
    Member,
    node=st.sampled_from(["/a", "/b", "/a/b", "/long-name", "/c/seq=7"]).map(Name),
    bootstrap_s=st.sampled_from([0, 1, 1_636_266_330, 1_736_266_473, 2**40]),
)
vectors = st.dictionaries(members, st.integers(0, 2**33), max_size=8).map(StateVector)
