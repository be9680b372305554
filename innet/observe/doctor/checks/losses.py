"""Links that lose packets, and nodes that repeat what was lost."""

from __future__ import annotations

from collections.abc import Iterator

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import LinkPair, NodePair, Observation

_LOST_SHARE = 0.005
_UNHEARD_SHARE = 0.03
"""The two ends are not asked at the same moment, so small differences mean nothing."""
_FEW_PACKETS = 200
_REPEATED_SHARE = 0.02


class LossyLink:
    """A link on the way of which packets disappear, or a host that repeats many Interests."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each lossy direction; without any, one for each host that repeats."""
        lossy = [finding for link in seen.links() if (finding := self._lossy(link)) is not None]
        yield from lossy
        if not lossy:
            for node in seen.nodes():
                yield from self._repeating(node)

    @staticmethod
    def _lossy(link: LinkPair) -> Finding | None:
        if link.packets_out < _FEW_PACKETS:
            return None
        unheard = 0 if link.packets_in is None else link.packets_out - link.packets_in
        unheard -= link.dropped_queue
        if link.dropped_loss > _LOST_SHARE * link.packets_out:
            lost = link.dropped_loss
        elif unheard > _UNHEARD_SHARE * link.packets_out:
            lost = unheard
        else:
            return None
        return Finding(
            check="lossy_link",
            subject=str(link),
            problem=f"The link {link} lost {lost} of {link.packets_out} packets "
            f"({100 * lost / link.packets_out:.1f} %) within {link.span_s:.1f} s; by the topology "
            f"it loses {100 * link.link.loss:g} %.",
            remedy="Every lost packet is repeated after a round trip or more. On a real link look "
            "for a bad cable, a wrong duplex mode or full buffers (ethtool -S, netstat -su).",
            cause="link",
            severity=lost / link.packets_out,
        )

    @staticmethod
    def _repeating(node: NodePair) -> Iterator[Finding]:
        asked = node.grown("endpoint", "interests_expressed")
        repeated = node.grown("endpoint", "retransmissions_by_gap") + node.grown(
            "endpoint", "retransmissions_by_timeout"
        )
        if asked >= _FEW_PACKETS and repeated > _REPEATED_SHARE * asked:
            yield Finding(
                check="lossy_link",
                subject=node.name,
                problem=f"{node.name} repeated {repeated} of {asked} Interests "
                f"({100 * repeated / asked:.1f} %) within {node.span_s:.1f} s, and no link shows "
                "losses that would explain it.",
                remedy="Answers are late or lost where nobody counts: look for nodes that were "
                "slow (a processor that is shared), or raise transport.min_rto_s.",
                cause="repetitions",
                severity=repeated / asked,
            )
