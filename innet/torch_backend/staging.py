"""Copies tensors of a device to host memory and back, beside the computation.

The network reads and writes host memory. The input of an operation is copied from the device before
the operation starts, and the result is copied back at its end. Large tensors go in chunks: while
one chunk is on the network, the next one leaves the device. The copies run on streams of their
own, one for each direction, behind the work that is queued on the caller's stream at the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from innet.torch_backend.launcher import Fail, Step
from innet.torch_backend.work import CompositeWork, Copy

CHUNK_BYTES = 8 << 20
"""Size of a chunk: small beside a large tensor, large beside the cost of an operation."""

Submit = Callable[[Sequence[Step]], CompositeWork]
"""Starts steps one after the other."""

HostOf = Callable[[torch.Tensor], torch.Tensor]
"""Returns the host copy of a tensor, of its shape and type; a tensor on the host is its own."""

Store = Callable[[torch.Tensor], Copy]
"""Starts to copy a tensor from the host to a tensor of a device."""


class Device(Protocol):
    """A device whose memory the network cannot reach."""

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is in the device's memory."""

    def host_like(self, tensor: torch.Tensor) -> torch.Tensor:
        """Contiguous host memory of the tensor's size that the device can copy to and from."""

    def fetch(self, host: torch.Tensor, tensor: torch.Tensor) -> Copy:
        """Start to copy ``tensor`` to ``host``, behind the work that is queued on the device."""

    def storing(self, tensor: torch.Tensor) -> Store:
        """Returns what starts to copy to ``tensor``, behind the work that is queued by now."""


class Cuda:
    """NVIDIA's devices, through pinned memory and two streams of its own on each."""

    def __init__(self) -> None:
        self._outbound: dict[torch.device, torch.cuda.Stream] = {}
        self._inbound: dict[torch.device, torch.cuda.Stream] = {}

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is on a CUDA device."""
        return tensor.is_cuda

    def host_like(self, tensor: torch.Tensor) -> torch.Tensor:
        """Pinned memory, which PyTorch recycles for the next operation."""
        return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)

    def fetch(self, host: torch.Tensor, tensor: torch.Tensor) -> Copy:
        """Copy out, behind the current stream."""
        stream = _stream(self._outbound, tensor.device)
        stream.wait_stream(torch.cuda.current_stream(tensor.device))
        return self._copy(host, tensor.detach(), tensor, stream)

    def storing(self, tensor: torch.Tensor) -> Store:
        """Copy in, behind the current stream: until then it may read the tensor, or memory that
        was another tensor's before."""
        stream = _stream(self._inbound, tensor.device)
        queued = torch.cuda.current_stream(tensor.device).record_event()

        def store(host: torch.Tensor) -> Copy:
            stream.wait_event(queued)
            return self._copy(tensor.detach(), host, tensor, stream)

        return store

    def _copy(
        self,
        to: torch.Tensor,
        source: torch.Tensor,
        tensor: torch.Tensor,
        stream: torch.cuda.Stream,
    ) -> Copy:
        with torch.cuda.stream(stream):
            to.copy_(source, non_blocking=True)
            done = stream.record_event()
        # The allocator must not reuse the tensor's memory while this stream uses it.
        tensor.record_stream(stream)
        return Copy(
            done.synchronize, lambda: torch.cuda.current_stream(tensor.device).wait_event(done)
        )


def _stream(
    streams: dict[torch.device, torch.cuda.Stream], device: torch.device
) -> torch.cuda.Stream:
    stream = streams.get(device)
    if stream is None:
        stream = streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return stream


@dataclass(frozen=True, slots=True)
class Call:
    """An operation on tensors, or on their host copies.

    Attributes:
        build: makes its steps, once its input is on the host.
        reads: the tensors that it reads.
        writes: all tensors that it writes.
    """

    build: Callable[[HostOf], Sequence[Step]]
    reads: Sequence[torch.Tensor] = ()
    writes: Sequence[torch.Tensor] = ()


class Staging:
    """Turns calls into steps, by way of host copies for tensors on a device."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def chunks(self, tensor: torch.Tensor) -> Iterator[torch.Tensor]:
        """The parts in which the tensor of an elementwise operation is copied."""
        if self._device.holds(tensor) and tensor.is_contiguous() and tensor.nbytes > CHUNK_BYTES:
            yield from torch.split(tensor.detach().view(-1), CHUNK_BYTES // tensor.itemsize)
        else:
            yield tensor

    def steps(
        self,
        calls: Sequence[Call],
        submit: Submit,
        fail: Fail | None = None,
        synchronising: bool = True,
    ) -> tuple[list[Step], list[Copy]]:
        """The steps of all calls, and the list of their copies to the device.

        The list is filled as the steps end.

        Args:
            calls: of one operation of PyTorch.
            submit: starts the steps of a call on tensors of a device when their input is on the
                host.
            fail: called in place of these steps; ``None`` if they are collectives.
            synchronising: of these steps.
        """

        def staged(call: Call) -> Step:
            return replace(
                self._staged(call, stored, submit, fail), fail=fail, synchronising=synchronising
            )

        steps: list[Step] = []
        stored: list[Copy] = []
        for call in calls:
            if any(self._device.holds(tensor) for tensor in (*call.reads, *call.writes)):
                steps.append(staged(call))
            else:
                steps += call.build(_itself)
        return steps, stored

    def _staged(
        self, call: Call, stored: list[Copy], submit_all: Submit, fail: Fail | None
    ) -> Step:
        twins = {
            id(tensor): self._device.host_like(tensor)
            for tensor in (*call.reads, *call.writes)
            if self._device.holds(tensor)
        }

        def on_device(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
            return [tensor for tensor in tensors if id(tensor) in twins]

        fetched = [
            self._device.fetch(twins[id(tensor)], tensor) for tensor in on_device(call.reads)
        ]

        stores = [
            (self._device.storing(tensor), twins[id(tensor)]) for tensor in on_device(call.writes)
        ]

        def ready() -> None:
            for copy in fetched:
                copy.wait()

        def submit() -> CompositeWork:
            try:
                steps = call.build(lambda tensor: twins.get(id(tensor), tensor))
            except BaseException as error:
                if fail is not None:
                    fail(error)
                raise
            return submit_all(steps)

        def store() -> None:
            stored.extend(store(host) for store, host in stores)

        return Step(submit, store, ready)


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor
