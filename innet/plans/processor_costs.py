"""Processor time that the work of nodes costs: what a launcher measures and all ranks are given."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from innet.plans.segment_room import SegmentRoom


class ProcessorCosts(BaseModel):
    """Seconds of processor time that the work of nodes takes, and who shares the processors.

    All ranks of a job read the same values, so that they choose the same plans.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    operation_s: float = Field(ge=0, description="of a rank for each operation")
    wake_up_s: float = Field(
        ge=0, description="of a node that a packet wakes up; also the time until it runs"
    )
    packet_s: float = Field(ge=0, description="of an Interest or Data on a link, at each end")
    carried_byte_s: float = Field(ge=0, description="of a byte on a link, at each end")
    forwarded_s: float = Field(ge=0, description="of a segment that a node passes on")
    operand_s: float = Field(ge=0, description="of a segment that a node adds to a sum")
    added_byte_s: float = Field(ge=0, description="of a byte that a node adds to a sum")
    signature_s: float = Field(ge=0, description="of signing a segment, and of verifying it")
    signed_byte_s: float = Field(ge=0, description="of a byte of it")
    cores: int = Field(gt=0, description="processors of a machine")
    shared: bool = Field(description="all nodes are on one machine; false: each on its own")
    segment_bytes: int = Field(gt=0, description="content of a full segment of one datagram")
    bulk_segment_bytes: int = Field(ge=0, description="the most in a segment of several; 0: none")

    @property
    def segment_room(self) -> SegmentRoom:
        """How large segments are."""
        return SegmentRoom(self.segment_bytes, self.bulk_segment_bytes)
