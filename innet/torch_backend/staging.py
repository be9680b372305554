"""Tensors of a device pass through host memory, beside the computation.

The network reads and writes host memory. So what an operation reads is copied out of the device
before it starts, and what it wrote is copied back at its end, in chunks: while one is on the
network, the next leaves the device. The copies run on a stream of their own, which first waits for
what the caller's stream had been given to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from innet.torch_backend.launcher import Fail, Step
from innet.torch_backend.work import Copy, Together

CHUNK_BYTES = 8 << 20
"""Of a large tensor: small beside it, large beside what an operation costs."""

Submit = Callable[[Sequence[Step]], Together]
"""Starts steps one after the other."""

HostOf = Callable[[torch.Tensor], torch.Tensor]
"""The host's twin of a tensor: of the same shape and type, itself if it is on the host."""


class Device(Protocol):
    """Where tensors are that the network cannot reach."""

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is there."""

    def host_like(self, tensor: torch.Tensor) -> torch.Tensor:
        """Contiguous host memory for a tensor's elements, which the device can copy to and from."""

    def fetch(self, host: torch.Tensor, tensor: torch.Tensor) -> Copy:
        """Start to copy ``tensor`` to ``host``, after all that was asked of the device before."""

    def store(self, tensor: torch.Tensor, host: torch.Tensor) -> Copy:
        """Start to copy ``host`` to ``tensor``."""


class Cuda:
    """NVIDIA's devices, through pinned memory and a stream of ours on each."""

    def __init__(self) -> None:
        self._streams: dict[torch.device, torch.cuda.Stream] = {}

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is on such a device."""
        return tensor.is_cuda

    def host_like(self, tensor: torch.Tensor) -> torch.Tensor:
        """Pinned memory: PyTorch keeps it for the next operation."""
        return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)

    def fetch(self, host: torch.Tensor, tensor: torch.Tensor) -> Copy:
        """Copy out once the current stream has come here."""
        stream = self._stream(tensor.device)
        stream.wait_stream(torch.cuda.current_stream(tensor.device))
        return self._copy(host, tensor.detach(), tensor, stream)

    def store(self, tensor: torch.Tensor, host: torch.Tensor) -> Copy:
        """Copy in."""
        return self._copy(tensor.detach(), host, tensor, self._stream(tensor.device))

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
        # The allocator must not give the tensor's memory away while this stream uses it.
        tensor.record_stream(stream)
        return Copy(
            done.synchronize, lambda: torch.cuda.current_stream(tensor.device).wait_event(done)
        )

    def _stream(self, device: torch.device) -> torch.cuda.Stream:
        stream = self._streams.get(device)
        if stream is None:
            stream = self._streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        return stream


@dataclass(frozen=True, slots=True)
class Call:
    """An operation, told in a way that works on the tensors or on their twins.

    Attributes:
        build: makes its steps; called when what it reads is on the host.
        reads: the tensors that it reads.
        writes: those that it writes, all of them.
        fail: in place of its steps, when these are no collectives.
        synchronising: as of its first step.
    """

    build: Callable[[HostOf], Sequence[Step]]
    reads: Sequence[torch.Tensor] = ()
    writes: Sequence[torch.Tensor] = ()
    fail: Fail | None = None
    synchronising: bool = True


class Staging:
    """Turns calls into steps, through twins on the host where their tensors are on a device."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def chunks(self, tensor: torch.Tensor) -> Iterator[torch.Tensor]:
        """The parts in which a tensor that is worked on by element goes to the host and back."""
        if self._device.holds(tensor) and tensor.is_contiguous() and tensor.nbytes > CHUNK_BYTES:
            yield from torch.split(tensor.detach().view(-1), CHUNK_BYTES // tensor.itemsize)
        else:
            yield tensor

    def steps(self, calls: Sequence[Call], submit: Submit) -> tuple[list[Step], list[Copy]]:
        """The steps of all calls, and where the copies to the device stand once they have ended.

        ``submit`` starts the steps that a call on tensors of a device has when it is its turn.
        """
        steps: list[Step] = []
        stored: list[Copy] = []
        for call in calls:
            if any(self._device.holds(tensor) for tensor in (*call.reads, *call.writes)):
                steps.append(self._staged(call, stored, submit))
            else:
                steps += call.build(_itself)
        return steps, stored

    def _staged(self, call: Call, stored: list[Copy], submit_all: Submit) -> Step:
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

        def ready() -> None:
            for copy in fetched:
                copy.wait()

        def submit() -> Together:
            try:
                steps = call.build(lambda tensor: twins.get(id(tensor), tensor))
            except BaseException as error:
                if call.fail is not None:
                    call.fail(error)
                raise
            return submit_all(steps)

        def store() -> None:
            stored.extend(
                self._device.store(tensor, twins[id(tensor)]) for tensor in on_device(call.writes)
            )

        return Step(submit, store, ready, call.fail, call.synchronising)


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor
