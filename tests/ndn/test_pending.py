"""Which answers satisfy which Interests, and when Interests are given up."""

from __future__ import annotations

import pytest

from innet.names import with_digest
from innet.ndn import Name, encode_data, encode_interest
from innet.ndn.pending import ExpressedInterest, PendingTable
from innet.ndn.wire import parse_data

DATA = parse_data(encode_data("/a/b/c", b"content"))


def _add(table: PendingTable[str], name: str, *, prefix: bool = False, expires_at_s: float = 9.0):
    pending = ExpressedInterest(Name(name), encode_interest(name), prefix, expires_at_s, name)
    table.add(pending)
    return pending


@pytest.mark.parametrize(
    ("name", "prefix", "answered"),
    [
        ("/a/b/c", False, True),
        ("/a/b/c", True, True),
        ("/a/b", False, False),
        ("/a/b", True, True),
        ("/a/b/c/d", True, False),
        ("/x", True, False),
        (str(with_digest("/a/b/c", DATA.implicit_digest())), False, True),
        (str(with_digest("/a/b/c", bytes(32))), False, False),
        (str(with_digest("/a/b", DATA.implicit_digest())), True, False),
    ],
)
def test_data_satisfy_matching_interests_once(name, prefix, answered):
    table: PendingTable[str] = PendingTable()
    _add(table, name, prefix=prefix)
    assert [pending.waiter for pending in table.satisfy(DATA)] == ([name] if answered else [])
    assert table.satisfy(DATA) == []


def test_interests_expire_in_the_order_of_their_deadlines():
    table: PendingTable[str] = PendingTable()
    for name, at_s in (("/late", 3.0), ("/early", 1.0), ("/answered", 0.5)):
        pending = _add(table, name, expires_at_s=at_s)
        if name == "/answered":
            assert table.remove(pending)
            assert not table.remove(pending)
    assert table.next_expiry_s() == 1.0
    assert table.expire(0.9) == []
    assert [pending.waiter for pending in table.expire(5.0)] == ["/early", "/late"]
    assert table.next_expiry_s() is None


def test_a_nack_ends_only_the_interests_of_its_name():
    table: PendingTable[str] = PendingTable()
    _add(table, "/a", prefix=True)
    _add(table, "/a/b")
    assert [pending.waiter for pending in table.reject(Name("/a"))] == ["/a"]
    assert [pending.waiter for pending in table] == ["/a/b"]
