"""Fetches objects: finds the version, then fetches and validates segments in a window.

A fetch can go on after it failed.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from innet._native import _core
from innet.errors import (
    InterestRefused,
    InterestTimeout,
    MalformedPacket,
    ObjectIncomplete,
    SecurityError,
    TransportError,
)
from innet.names import Name, as_name, with_digest, with_keyword, with_segment
from innet.ndn import wire
from innet.ndn.objects.discovery import fetch_believed, locate
from innet.ndn.objects.publication import MANIFEST
from innet.ndn.objects.segments import CongestionWindow, RetransmissionTimer, SegmentQueue
from innet.ndn.objects.sink import Sink, open_sink
from innet.security.validation import ReceivedData, Validator
from innet.tlv_numbers import NackReason, SignatureType

if TYPE_CHECKING:
    from innet.ndn.client import Client, InterestReply


class Manifests:
    """The manifests of one object that have arrived so far.

    Attributes:
        segments: of the object.
    """

    def __init__(self, client: Client, name: Name, verifier: _core.ManifestVerifier) -> None:
        self._client = client
        self._name = with_keyword(name, MANIFEST)
        self._verifier = verifier
        self._fetching = asyncio.Lock()
        self.segments: int = verifier.segments

    @classmethod
    async def fetch(
        cls, client: Client, name: Name, validator: Validator, *, patience_s: float
    ) -> Manifests:
        """Fetch the root manifest of the object ``name``; forged answers are dropped.

        Raises:
            SecurityError: the validator refused all answers within ``patience_s``.
            InterestTimeout: no answer arrived.
            MalformedPacket: it is not a root manifest.
        """
        root_name = with_segment(with_keyword(name, MANIFEST), 0)
        root = await fetch_believed(client, root_name, validator, deadline_s=patience_s)
        try:
            verifier = _core.ManifestVerifier(root)
        except ValueError as error:
            raise MalformedPacket(f"{root.name}: {error}") from error
        return cls(client, name, verifier)

    async def digest_of(self, segment: int) -> bytes:
        """The implicit digest of a segment.

        Raises:
            SecurityError: a manifest is not the one that its parent lists.
            InterestTimeout: no manifest that lists it arrived.
        """
        async with self._fetching:
            while (missing := self._verifier.missing_manifest(segment)) is not None:
                await self._fetch_manifest(missing)
        return self._verifier.segment_digest(segment)

    async def _fetch_manifest(self, manifest: int) -> None:
        name = with_segment(self._name, manifest)
        digest = self._verifier.manifest_digest(manifest)
        data = await self._client.express(with_digest(name, digest))
        if not self._verifier.add_manifest(data):
            raise SecurityError(f"{name} is not a manifest, though its parent lists it")


_TRANSIENT = (NackReason.CONGESTION, NackReason.DUPLICATE)
_TRANSIENT_AT_FIRST = (*_TRANSIENT, NackReason.NO_ROUTE)


_UNSIGNED = "it is not signed, and no manifest vouches for it"


class _SignedOnly:
    """Refuses unsigned packets, and those that another validator refuses."""

    def __init__(self, validator: Validator) -> None:
        self._validator = validator

    async def check(self, name: str, data: ReceivedData) -> None:
        """
        Raises:
            SecurityError: the packet is not signed, or the other validator refuses it.
        """
        if data.signature_type == SignatureType.NULL:
            raise SecurityError(f"{name}: {_UNSIGNED}")
        await self._validator.check(name, data)


@dataclass(frozen=True)
class Progress:
    """Progress of a fetch.

    Attributes:
        name: prefix of the segments.
        arrived: number of segments that have arrived.
        total: number of segments; ``None`` until the first has arrived.
        size_bytes: bytes from the object's beginning on without a gap.
    """

    name: Name
    arrived: int
    total: int | None
    size_bytes: int


@dataclass(frozen=True)
class FetchedObject:
    """A complete object.

    Attributes:
        name: with its version, when it has one.
        content: its bytes; empty when it was fetched into a file.
        size_bytes: how many bytes it has.
        segments: number of its packets.
        signed_once: whether manifests list the segments.
    """

    name: Name
    content: bytes
    size_bytes: int
    segments: int
    signed_once: bool


def too_large(name: Name, most_bytes: int) -> TransportError:
    """The error for an object with more than ``most_bytes``."""
    return TransportError(
        f"{name} is larger than the {most_bytes} bytes that are taken here: send less, or raise "
        "most_bytes where it is fetched"
    )


@dataclass(frozen=True)
class FetchOptions:
    """How an object is fetched.

    Attributes:
        validator: of segments, or of the root manifest.
        patience_s: time for which one segment is requested without an answer.
        no_route_patience_s: how long to retry a segment while no route exists.
        most_bytes: of content; a larger object is refused as soon as its size is known. Any size
            by default.
        on_progress: called after every segment.
    """

    validator: Validator
    patience_s: float
    no_route_patience_s: float = 0.0
    most_bytes: int | None = None
    on_progress: Callable[[Progress], None] | None = None


class ObjectFetch:
    """Fetches the segments below ``name`` into ``sink``."""

    def __init__(
        self,
        client: Client,
        name: Name,
        sink: Sink,
        options: FetchOptions | None = None,
        **old_options: Any,
    ) -> None:
        """``old_options`` are those of :class:`FetchOptions`: deprecated, kept for one version."""
        if options is None:
            what = "the keywords of ObjectFetch are now fields of its FetchOptions"
            warnings.warn(what, DeprecationWarning, stacklevel=2)
            options = FetchOptions(**old_options)
        elif old_options:
            raise TypeError("ObjectFetch takes FetchOptions or keywords, not both")
        self._client = client
        self._name = name
        self._sink = sink
        self._options = options
        self._arrived_bytes = 0
        self._queue = SegmentQueue()
        self._window = CongestionWindow()
        self._timer = RetransmissionTimer()
        self._manifests: Manifests | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._moved = asyncio.Event()

    async def run(self) -> FetchedObject:
        """Fetch the missing segments. After a failure, call it again to continue.

        Raises:
            ObjectIncomplete: a segment was not answered.
        """
        self._failure = None
        try:
            while not self._queue.complete:
                self._fill_window()
                await self._moved.wait()
                self._moved.clear()
                await self._hand_over()
                if self._failure is not None:
                    raise self._failure
        except (InterestTimeout, InterestRefused) as error:
            raise self._incomplete(error) from error
        finally:
            await self._stop()
        content = await self._sink.finish()
        return FetchedObject(
            name=self._name,
            content=content or b"",
            size_bytes=self._sink.size_bytes,
            segments=self._queue.arrived_count,
            signed_once=self._manifests is not None,
        )

    def _fill_window(self) -> None:
        # The first segment shows how many there are, and whether manifests list them.
        limit = 1 if self._queue.total is None else self._window.size
        while len(self._under_way) < limit and (segment := self._queue.take()) is not None:
            task = asyncio.get_running_loop().create_task(self._fetch_segment(segment))
            self._under_way.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._moved.set()
        if not task.cancelled() and (failure := task.exception()) and self._failure is None:
            self._failure = failure

    async def _stop(self) -> None:
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _fetch_segment(self, segment: int) -> None:
        try:
            data = await self._segment_data(segment)
        except BaseException:
            self._queue.lost(segment)
            raise
        if self._queue.arrived(segment, data.content):
            self._arrived_bytes += len(data.content)
        if self._manifests is None and data.final_segment is not None:
            self._queue.set_total(data.final_segment + 1)
        self._check_size()
        self._report()

    def _check_size(self) -> None:
        """Refuse an object that is or will be too large: a segment has at least one byte."""
        total, most_bytes = self._queue.total or 1, self._options.most_bytes
        if most_bytes is not None and max(self._arrived_bytes, total - 1) > most_bytes:
            raise too_large(self._name, most_bytes)

    async def _segment_data(self, segment: int) -> ReceivedData:
        name = with_segment(self._name, segment)
        if self._manifests is not None:
            digest = await self._manifests.digest_of(segment)
            return await self._ask(with_digest(name, digest))
        data = await self._ask(name)
        if data.signature_type != SignatureType.NULL:
            return await self._believed(name, data)
        try:
            self._manifests = await Manifests.fetch(
                self._client,
                self._name,
                self._options.validator,
                patience_s=self._options.patience_s,
            )
        except (InterestTimeout, InterestRefused) as no_manifest:
            return await self._signed(name, no_manifest)
        self._queue.set_total(self._manifests.segments)
        digest = await self._manifests.digest_of(segment)
        return data if data.implicit_digest() == digest else await self._segment_data(segment)

    async def _signed(
        self, name: Name, no_manifest: InterestTimeout | InterestRefused
    ) -> ReceivedData:
        """A segment with a signature of its own, after an unsigned one that no manifest lists.

        An attacker can send an unsigned segment; it must not end the fetch of a signed object.

        Raises:
            InterestTimeout, InterestRefused: ``no_manifest``, when no signed segment arrives.
        """
        try:
            return await fetch_believed(
                self._client,
                name,
                _SignedOnly(self._options.validator),
                deadline_s=self._options.patience_s,
                refused=SecurityError(_UNSIGNED),
            )
        except SecurityError:
            raise no_manifest from None

    async def _believed(self, name: Name, data: ReceivedData) -> ReceivedData:
        try:
            await self._options.validator.check(str(name), data)
        except SecurityError as refused:
            return await fetch_believed(
                self._client,
                name,
                self._options.validator,
                deadline_s=self._options.patience_s,
                refused=refused,
            )
        return data

    async def _ask(self, name: Name) -> ReceivedData:
        """One packet, requested again until its deadline. Each attempt adjusts the window."""
        clock = asyncio.get_running_loop().time
        give_up_at_s = clock() + self._options.patience_s
        no_route_until_s = clock() + self._options.no_route_patience_s
        attempt = 0
        while True:
            sent, sent_at_s = self._window.on_send(), clock()
            transient = _TRANSIENT if clock() >= no_route_until_s else _TRANSIENT_AT_FIRST
            reply = await self._try_once(name, self._timer.timeout_s(attempt), transient)
            if reply is not None:
                if attempt == 0:
                    self._timer.on_sample(clock() - sent_at_s)
                if reply.congested:
                    self._window.on_congestion(sent)
                else:
                    self._window.on_answer()
                return reply.data
            self._window.on_congestion(sent)
            attempt += 1
            if clock() >= give_up_at_s:
                raise InterestTimeout(f"{name} was not answered after {attempt} requests")

    async def _try_once(
        self, name: Name, timeout_s: float, transient: Collection[int]
    ) -> InterestReply | None:
        """The answer to one Interest; ``None`` if it was lost or had a ``transient`` Nack."""
        try:
            async with asyncio.timeout(timeout_s):
                # It outlives the timeout: a late answer satisfies the next attempt.
                return await self._client.exchange(wire.encode_interest(name))
        except (TimeoutError, InterestTimeout):
            return None
        except InterestRefused as refused:
            if refused.reason not in transient:
                raise
            await asyncio.sleep(timeout_s)
            return None

    async def _hand_over(self) -> None:
        if contents := self._queue.in_order():
            await self._sink.write(contents)

    def _report(self) -> None:
        if self._options.on_progress is None:
            return
        self._options.on_progress(
            Progress(
                name=self._name,
                arrived=self._queue.arrived_count,
                total=self._queue.total,
                size_bytes=self._sink.size_bytes,
            )
        )

    def _incomplete(self, error: InterestTimeout | InterestRefused) -> ObjectIncomplete:
        missing = self._queue.missing()
        runs = ", ".join(
            str(first) if first == last else f"{first}-{last}" for first, last in missing[:8]
        )
        total = "an unknown number" if self._queue.total is None else self._queue.total
        more = "" if len(missing) <= 8 else " and more"
        return ObjectIncomplete(
            f"{self._name}: {self._queue.arrived_count} of {total} segments arrived, and segments "
            f"{runs}{more} did not: {error}",
            missing=missing,
            resume=self.run,
        )


async def fetch(
    client: Client,
    name: Name | str,
    *,
    into: Path | None = None,
    exact: bool = False,
    validator: Validator | None = None,
    patience_s: float = 8.0,
    most_bytes: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> FetchedObject:
    """Fetch an object, published by any NDN implementation.

    Args:
        name: of the object. RDR metadata give its latest version or, where there are none, any
            packet below the name. A name that ends with a version is fetched unchanged.
        into: a file, which appears when the object is complete; or a FIFO, a device or a descriptor
            such as ``/dev/stdout``, which receives bytes as they arrive. Memory by default.
        exact: the segments are right below ``name``, which has no version.
        validator: in place of the client's: of metadata and segments, or of the root manifest.
        patience_s: how long a packet may go unanswered.
        most_bytes: of content; a larger object is refused as soon as its size is known.
        on_progress: called after every segment.

    Raises:
        InterestTimeout: no Data of this name arrived.
        InterestRefused: a forwarder has no route to a producer.
        ObjectIncomplete: some segments did not arrive. Its ``missing`` names them; ``resume()``
            continues from there.
        SecurityError: the validator refused a packet.
        MalformedPacket: a manifest, or metadata, of a form that innet does not read.
        TransportError: the file cannot be written, or the object is too large.
    """
    believed = validator or client.validator
    sink = await open_sink(into)
    place = await locate(
        client, as_name(name), exact=exact, validator=believed, deadline_s=patience_s
    )
    single = None if place.packet is None else place.packet.content
    if single is not None and most_bytes is not None and len(single) > most_bytes:
        raise too_large(place.name, most_bytes)
    if single is not None:
        await sink.write([single])
        return FetchedObject(
            name=place.name,
            content=await sink.finish() or b"",
            size_bytes=sink.size_bytes,
            segments=1,
            signed_once=False,
        )
    options = FetchOptions(
        validator=believed,
        patience_s=patience_s,
        most_bytes=most_bytes,
        on_progress=on_progress,
    )
    return await ObjectFetch(client, place.name, sink, options).run()
