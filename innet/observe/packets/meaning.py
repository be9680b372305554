"""What innet's names mean, in words (the table in ``docs/protocol.md``)."""

from __future__ import annotations

import re

_JOB = r"/[^/]+/[^/]+"
_KV = r"/kv/[0-9a-f]{32}"
_BLOCK = r"/[0-9a-f]+/[^/]+/(?P<a>\d+)-(?P<b>\d+)/[0-9a-f]{64}"
_SEG = r"/seg=(?P<seg>\d+)"

_SEQ = r"/seq=(?P<seq>\d+)"

_FORMS: tuple[tuple[str, str], ...] = (
    (rf"{_JOB}/rounds/(?P<rank>\d+)/ready{_SEQ}{_SEG}", "rank {rank} is ready for round {seq}"),
    (rf"{_JOB}/rounds/0/set{_SEQ}{_SEG}", "who is in round {seq}"),
    (
        rf"{_JOB}/p2p/(?P<src>\d+)/receipt/(?P<dst>\d+)/[^/]+{_SEQ}{_SEG}",
        "receipt of {src} for message {seq} from {dst}",
    ),
    (
        rf"{_JOB}/p2p/(?P<src>\d+)/[^/]+/(?P<dst>\d+)/[^/]+{_SEQ}{_SEG}",
        "message {seq} from {src} to {dst}, segment {seg}",
    ),
    (
        rf"{_JOB}/obj/(?P<rank>\d+)/.+/32=manifest{_SEG}",
        "manifest {seg} of an object of rank {rank}",
    ),
    (rf"{_JOB}/obj/(?P<rank>\d+)/.+{_SEG}", "segment {seg} of an object of rank {rank}"),
    (
        rf"{_JOB}/arrays/(?P<owner>\d+)/snapshot/.+{_SEQ}{_SEG}",
        "version {seq} of an array of rank {owner}, segment {seg}",
    ),
    (
        rf"{_JOB}/arrays/(?P<asker>\d+)/(?P<verb>request|put)/(?P<owner>\d+){_SEQ}{_SEG}",
        "{verb} {seq} of rank {asker} to rank {owner}",
    ),
    (
        rf"{_JOB}/arrays/(?P<owner>\d+)/reply/(?P<asker>\d+){_SEQ}{_SEG}",
        "reply {seq} of rank {owner} to rank {asker}",
    ),
    (
        rf"{_JOB}/(?P<a>\d+)-(?P<b>\d+)/(?P<what>[^/]+){_SEQ}{_SEG}",
        "{what} of ranks {a} to {b}, operation {seq}, segment {seg}",
    ),
    (
        rf"{_JOB}/(?P<rank>\d+)/(?P<what>[^/]+){_SEQ}{_SEG}",
        "{what} from rank {rank}, operation {seq}, segment {seg}",
    ),
    (
        rf"{_KV}/request/(?P<member>[^/]+)/(?P<asker>[^/]+)/[0-9a-f]+/(?P<verb>[a-z]+)/.+",
        "{asker} asks {member} to {verb} a block",
    ),
    (rf"{_KV}{_BLOCK}/32=manifest{_SEG}", "manifest {seg} of a block of layers {a} to {b}"),
    (rf"{_KV}{_BLOCK}{_SEG}", "block of layers {a} to {b}, segment {seg}"),
    (r"/n/(?P<node>[^/]+)/KEY/(?P<job>[^/]+)/[^/]+/v=\d+", "key of node {node} in job {job}"),
    (r".+/KEY(?:/[^/]+){3}", "certificate"),
    (r".+/32=metadata(?:/.*)?", "metadata of an object"),
    (rf".+/32=manifest{_SEG}", "manifest {seg}"),
    (
        r"/local(?:host|hop)/nfd/(?P<module>[^/]+)/(?P<verb>[^/]+).*",
        "management: {module} {verb}",
    ),
)
_PATTERNS = tuple((re.compile(pattern), words) for pattern, words in _FORMS)


def meaning_of(uri: str) -> str | None:
    """What a name is of, in a few words; ``None`` when it is none of innet's.

    >>> meaning_of("/train1/g0/0-7/sum.f32/seq=41/seg=9")
    'sum.f32 of ranks 0 to 7, operation 41, segment 9'
    >>> meaning_of("/videos/cat.mp4") is None
    True
    """
    bare = re.sub(r"/sha256digest=[0-9a-f]{64}$", "", uri)
    for pattern, words in _PATTERNS:
        found = pattern.fullmatch(bare)
        if found is not None:
            return words.format_map(found.groupdict())
    return None
