"""Objects come back as they were published, or the error says what is missing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from innet.errors import (
    InterestTimeout,
    MalformedPacket,
    ObjectIncomplete,
    SecurityError,
    TransportError,
)
from innet.names import METADATA, number_at, with_keyword, with_segment
from innet.ndn import ContentType, Ed25519Signer, KeyValidator, Name, encode_data
from innet.ndn.objects import FetchOptions, ObjectFetch, discover_version, fetch, publish
from innet.ndn.objects.publication import MANIFEST
from innet.ndn.objects.sink import MemorySink
from innet.ndn.wire import parse_data
from innet.security.signers import NullSigner
from innet.security.validation import IntegrityValidator
from innet.tlv_numbers import ComponentType
from tests.ndn.direct_client import DirectClient

KEY = Ed25519PrivateKey.generate()
SIGNER = Ed25519Signer("/alice/KEY/1", KEY)
TRUST = KeyValidator({"/alice/KEY/1": KEY.public_key()})


def content_of(size_bytes: int) -> bytes:
    return random.Random(size_bytes).randbytes(size_bytes)


@pytest.mark.parametrize("manifest", [False, True], ids=["segments-signed", "manifest"])
@pytest.mark.parametrize("size_bytes", [0, 1, 500, 501, 300_000])
async def test_an_object_is_fetched_despite_packet_loss(tmp_path, size_bytes, manifest):
    content = content_of(size_bytes)
    file = tmp_path / "content"
    file.write_bytes(content)
    chance = random.Random(size_bytes)
    client = DirectClient(loses=lambda name: chance.random() < 0.1)
    async with await publish(
        client, "/alice/x", file, segment_bytes=500, manifest=manifest, signer=SIGNER
    ) as published:
        shown: list[Any] = []
        fetched = await fetch(client, "/alice/x", validator=TRUST, on_progress=shown.append)
    assert fetched.content == content
    assert fetched.name == published.versioned
    assert fetched.segments == published.segments == max(1, -(-size_bytes // 500))
    assert fetched.signed_once == manifest
    assert shown[-1].arrived == shown[-1].total == fetched.segments


async def test_a_file_appears_when_it_is_complete(tmp_path):
    client = DirectClient()
    content = content_of(20_000)
    async with await publish(client, "/x", content, segment_bytes=100):
        fetched = await fetch(client, "/x", into=tmp_path / "there")
    assert (tmp_path / "there").read_bytes() == content
    assert fetched.size_bytes == len(content)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


async def test_missing_segments_are_named_and_fetched_later(tmp_path):
    client = DirectClient(
        loses=lambda name: number_at(name, -1, ComponentType.SEGMENT) in (3, 4, 7)
    )
    content = content_of(1000)
    async with await publish(client, "/x", content, version=5, segment_bytes=100):
        with pytest.raises(ObjectIncomplete, match=r"/x/v=5: 7 of 10 .*3-4, 7") as incomplete:
            await fetch(client, "/x/v=5", into=tmp_path / "there", patience_s=0)
        assert incomplete.value.missing == [(3, 4), (7, 7)]
        client.loses = lambda name: False
        client.asked.clear()
        await incomplete.value.resume()
    assert (tmp_path / "there").read_bytes() == content
    assert sorted(client.asked) == [with_segment("/x/v=5", k) for k in (3, 4, 7)]


async def test_the_latest_version_is_found_and_older_ones_stay_available(tmp_path):
    client = DirectClient()
    old = await publish(client, "/x", b"old", version=1)
    async with await publish(client, "/x", b"new", version=2):
        assert await discover_version(client, Name("/x")) == Name("/x/v=2")
        assert (await fetch(client, "/x")).content == b"new"
        assert (await fetch(client, "/x/v=1")).content == b"old"
    await old.withdraw()
    with pytest.raises(InterestTimeout):
        await fetch(client, "/x", patience_s=0.01)


@pytest.mark.parametrize("has_version", [True, False])
async def test_objects_without_metadata_are_found_by_one_of_their_packets(has_version):
    """As programs publish that know nothing of RDR."""
    client = DirectClient()
    name = Name("/x/v=3" if has_version else "/x")

    def serve(interest):
        segment = number_at(interest.name, -1, ComponentType.SEGMENT) or 0
        if with_keyword("/x", METADATA).is_prefix_of(interest.name) or segment > 2:
            return None
        return encode_data(
            with_segment(name, segment),
            b"%d" % segment,
            final_component=with_segment("/", 2) if segment == 2 else None,
        )

    client.produce("/x", serve)
    client.loses = lambda asked: with_keyword("/x", METADATA).is_prefix_of(asked)
    fetched = await fetch(client, "/x", patience_s=0.05)
    assert (fetched.name, fetched.content) == (name, b"012")


async def test_one_packet_without_a_segment_is_an_object_too():
    client = DirectClient()
    client.produce("/x", lambda interest: encode_data("/x", b"all"))
    client.loses = lambda asked: len(asked) > 1
    assert (await fetch(client, "/x", patience_s=0.01)).content == b"all"


@pytest.mark.parametrize("manifest", [False, True])
async def test_a_segment_of_another_signer_is_refused(manifest):
    client = DirectClient()
    async with await publish(
        client,
        "/x",
        content_of(300),
        version=1,
        segment_bytes=100,
        manifest=manifest,
        signer=SIGNER,
    ):
        forged = with_segment("/x/v=1", 1)
        client.forged[forged] = encode_data(forged, b"mine", final_component=with_segment("/", 2))
        if manifest:  # segments are asked for with their digests: what is forged answers nothing
            assert (await fetch(client, "/x/v=1", validator=TRUST)).content == content_of(300)
        else:
            with pytest.raises(SecurityError, match=r"/x/v=1/seg=1"):
                await fetch(client, "/x/v=1", validator=TRUST, patience_s=0.1)


@pytest.mark.parametrize("manifest", [False, True], ids=["segments-signed", "manifest"])
async def test_packets_of_other_signers_that_arrive_first_end_no_fetch(manifest):
    client = DirectClient()
    content = content_of(300)
    other = Ed25519Signer("/mallory/KEY/1", Ed25519PrivateKey.generate())
    async with await publish(
        client, "/x", content, version=1, segment_bytes=100, manifest=manifest, signer=SIGNER
    ):
        below = with_keyword("/x/v=1", MANIFEST) if manifest else Name("/x/v=1")
        forged = with_segment(below, 0)
        client.forged_first[forged] = [
            encode_data(forged, b"", content_type=ContentType.MANIFEST, signer=signer)
            for signer in (other, None, other)
        ]
        assert (await fetch(client, "/x/v=1", validator=TRUST)).content == content
    assert client.asked.count(forged) == 4


@pytest.mark.parametrize("validator", [TRUST, IntegrityValidator()], ids=["key", "integrity"])
async def test_an_unsigned_segment_ends_no_fetch_of_signed_segments(validator):
    client = DirectClient()
    content = content_of(300)
    async with await publish(
        client, "/x", content, version=1, segment_bytes=100, manifest=False, signer=SIGNER
    ):
        first = with_segment("/x/v=1", 0)
        client.forged_first[first] = [encode_data(first, b"", signer=NullSigner())] * 2
        assert (
            await fetch(client, "/x/v=1", validator=validator, patience_s=0.3)
        ).content == content


@pytest.mark.parametrize("manifest", [False, True], ids=["segments-signed", "manifest"])
async def test_metadata_of_other_signers_that_arrive_first_end_no_fetch(manifest):
    client = DirectClient()
    content = content_of(300)
    other = Ed25519Signer("/mallory/KEY/1", Ed25519PrivateKey.generate())
    async with await publish(
        client, "/x", content, version=1, segment_bytes=100, manifest=manifest, signer=SIGNER
    ):
        asked = with_keyword("/x", METADATA)
        forged = encode_data(Name("/x/32=metadata/v=9/seg=0"), b"", signer=other)
        client.forged_first[asked] = [forged, forged]
        assert (await fetch(client, "/x", validator=TRUST)).content == content
    assert client.asked.count(asked) == 3


async def test_a_fetch_that_finds_only_roots_of_others_reports_their_number():
    client = DirectClient()
    other = Ed25519Signer("/mallory/KEY/1", Ed25519PrivateKey.generate())
    async with await publish(client, "/x", b"mine", version=1, manifest=True, signer=other):
        with pytest.raises(SecurityError, match=r"refused all") as refused:
            await fetch(client, "/x/v=1", validator=TRUST, patience_s=0.1)
    asked = client.asked.count(with_segment(with_keyword("/x/v=1", MANIFEST), 0))
    assert f"refused all {asked} answers within 0.1 s" in str(refused.value)
    assert "/mallory/KEY/1, which is none of your keys" in str(refused.value)


async def test_unsigned_segments_are_accepted_only_below_a_root_signed_by_the_key():
    client = DirectClient()
    other = Ed25519Signer("/alice/KEY/1", Ed25519PrivateKey.generate())
    async with await publish(client, "/x", b"mine", version=1, manifest=True, signer=other):
        with pytest.raises(SecurityError, match=r"32=manifest/seg=0"):
            await fetch(client, "/x/v=1", validator=TRUST, patience_s=0.1)


async def test_many_segments_need_several_manifests():
    client = DirectClient()
    content = content_of(700)
    async with await publish(client, "/x", content, version=1, segment_bytes=1, manifest=True):
        assert (await fetch(client, "/x/v=1")).content == content
    manifests = {name for name in client.asked if str(name).startswith("/x/v=1/32=manifest")}
    assert len(manifests) == 1 + 3


async def test_objects_that_no_program_accepts_are_refused_before_publication(tmp_path):
    client = DirectClient()
    with pytest.raises(TransportError, match="8800"):
        await publish(client, "/x", bytes(8790), segment_bytes=8790)
    with pytest.raises(TransportError, match="cannot publish"):
        await publish(client, "/x", Path(tmp_path / "none"))


def test_metadata_follow_rdr():
    from innet.ndn.objects.discovery import encode_metadata

    packet = parse_data(encode_metadata(Name("/x"), Name("/x/v=9"), 9, SIGNER))
    assert packet.name == Name("/x/32=metadata/v=9/seg=0")
    assert packet.content == bytes.fromhex("0706 080178 360109".replace(" ", ""))
    assert packet.final_segment == 0
    assert packet.freshness_s > 0


async def test_an_object_that_is_too_large_is_refused_early(tmp_path):
    client = DirectClient()
    async with await publish(client, "/x", content_of(50_000), segment_bytes=100):
        assert (await fetch(client, "/x", most_bytes=50_000)).size_bytes == 50_000
        for most_bytes in (49_999, 499, 498, 0):
            asked = len(client.asked)
            with pytest.raises(TransportError, match=f"larger than the {most_bytes} bytes"):
                await fetch(client, "/x", most_bytes=most_bytes)
            assert len(client.asked) - asked < (600 if most_bytes == 49_999 else 100)
    async with await publish(client, "/empty", b""):
        assert (await fetch(client, "/empty", most_bytes=0)).size_bytes == 0
    client.produce("/packet", lambda interest: encode_data("/packet", bytes(100)))
    assert (await fetch(client, "/packet", most_bytes=100)).size_bytes == 100
    with pytest.raises(TransportError, match="larger than the 99 bytes"):
        await fetch(client, "/packet", into=tmp_path / "packet", most_bytes=99)
    assert not list(tmp_path.iterdir())


async def test_a_manifest_of_another_format_is_not_mistaken_for_the_object():
    client = DirectClient()
    packet = encode_data("/x/v=1", b"pointers", content_type=ContentType.MANIFEST, freshness_s=1)
    client.produce("/x", lambda interest: packet if interest.name == Name("/x") else None)
    with pytest.raises(MalformedPacket, match=r"/x/v=1 is a manifest \(ContentType 1024\)"):
        await fetch(client, "/x", patience_s=0.2)


def test_deprecated_keywords_of_a_fetch_work_and_warn():
    def make(*options: Any, **keywords: Any) -> ObjectFetch:
        return ObjectFetch(DirectClient(), Name("/alice/x"), MemorySink(), *options, **keywords)

    with pytest.warns(DeprecationWarning, match="FetchOptions"):
        fetching = make(validator=TRUST, patience_s=4.0)
    assert fetching._options == FetchOptions(validator=TRUST, patience_s=4.0)
    with pytest.raises(TypeError, match="not both"):
        make(fetching._options, patience_s=4.0)


def stated(*final_segments: int | None):
    """Serves as many segments; each states the given FinalBlockId."""

    def serve(interest):
        segment = number_at(interest.name, -1, ComponentType.SEGMENT)
        if segment is None or segment >= len(final_segments):
            return None
        final = final_segments[segment]
        return encode_data(
            with_segment("/x/v=1", segment),
            b"%d" % segment,
            final_component=None if final is None else with_segment("/", final),
        )

    return serve


@pytest.mark.parametrize(
    ("final_segments", "content"),
    [
        ((1, 3, 3, 3), b"0123"),
        ((1, 3, None, 3), b"0123"),
        ((0, 1, 2, 3), b"0"),
        ((None, None, 3, None), b"0123"),
        ((None, None, None, 3), b"0123"),
        ((3, None, None, None), b"0123"),
        ((1, None, None, None), b"01"),
    ],
)
async def test_an_object_is_complete_when_no_segment_states_a_later_end(final_segments, content):
    client = DirectClient()
    client.produce("/x", stated(*final_segments))
    fetched = await fetch(client, "/x/v=1")
    assert (fetched.content, fetched.segments) == (content, len(content))


@pytest.mark.parametrize("final_segments", [(3, 1, 1, 1), (3, 3, 3, 2), (3, 0, 3, 3), (2, 3, 1, 3)])
async def test_an_earlier_end_than_another_segment_stated_is_an_error(final_segments, tmp_path):
    client = DirectClient()
    client.produce("/x", stated(*final_segments))
    with pytest.raises(MalformedPacket, match="FinalBlockId"):
        await fetch(client, "/x/v=1", into=tmp_path / "object")
    assert not (tmp_path / "object").exists()


async def test_an_object_that_grows_beyond_the_largest_is_refused():
    client = DirectClient()
    client.produce("/x", stated(*range(1, 40)))
    with pytest.raises(TransportError, match="larger than the 10 bytes"):
        await fetch(client, "/x/v=1", most_bytes=10)


async def test_segments_that_a_later_end_promises_are_missing_when_they_do_not_come():
    client = DirectClient()
    client.produce("/x", stated(1, 3))
    with pytest.raises(ObjectIncomplete, match=r"2 of 4 .*2-3"):
        await fetch(client, "/x/v=1", patience_s=0)
