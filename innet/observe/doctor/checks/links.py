"""Checks of links: cut, slow, full, lossy, or with packets that are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import LinkPair, NodePair, Observation
from innet.quantities import rounded_rate
from innet.topology import Link

Medium = Literal["emulated", "veth", "path"]
"""What a link is: memory or sockets of one machine, a pair of kernel ports, or a path between two
machines."""


def medium_of(seen: Observation, link: Link) -> Medium:
    """The medium of a link."""
    if seen.after.status.run.mode == "netns":
        return "veth"
    near, far = (seen.topology.placement[node] for node in link.nodes)
    return "path" if seen.after.status.run.mode == "cluster" and near != far else "emulated"


def _ends(seen: Observation, link: Link) -> str:
    """Where the ends of a link are, for people: ``h0:eth0 and s0:eth1``, or both machines."""
    if medium_of(seen, link) != "path":
        return f"{link.a} and {link.b}"
    machines = seen.after.status.run.machines
    named = []
    for node in link.nodes:
        machine = seen.topology.placement[node]
        address = machines[machine].address if machine in machines else ""
        named.append(f"machine {machine} ({address})" if address else f"machine {machine}")
    return " and ".join(named)


class CutLink:
    """A link that carries nothing although the nodes at both ends run."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each such link."""
        for link in filter(seen.is_cut, seen.topology.links):
            near, far = link.nodes
            away = [node for node in link.nodes if node not in seen.after.status.nodes]
            runs = f"although {near} and {far} run"
            if away:
                runs = (
                    f"since {near} and {far} last ran together; {' and '.join(away)} does not now"
                )
            yield Finding(
                check="cut_link",
                subject=f"{near}--{far}",
                problem=f"The link {near}--{far} carries no packets, {runs}. Traffic takes "
                "another path where there is one.",
                remedy=_CUT_REMEDIES[medium_of(seen, link)].format(ends=_ends(seen, link)),
                nodes=link.nodes,
            )


_CUT_REMEDIES: Final[Mapping[Medium, str]] = {
    "emulated": "Both ends are processes of one machine ({ends}): their output in the launcher's "
    "log says more. `innet down` and a new launch make the link anew.",
    "veth": "Look at both ports ({ends}): `ip link` in their namespaces shows whether they are up, "
    "and a filter may drop packets there.",
    "path": "Let UDP pass between {ends}: look at the cable, the route (`ip route get`) and the "
    "firewalls of both. The agents still reach the launcher, over TCP.",
}


_SLOW_SHARE = 0.7
"""The share of its rate below which a link with a queue is slow; others carry 95 % or more."""
_WAITING_BYTES = 10_000
"""A queue of one packet may just be passing."""


class SlowLink:
    """A link that carries far less than it should although packets wait for it."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each slow direction."""
        for link in seen.links():
            rate_bps = link.link.rate_bps
            if rate_bps is None or min(link.depths_bytes) < _WAITING_BYTES:
                continue
            if link.sent_bps < _SLOW_SHARE * rate_bps:
                yield Finding(
                    check="slow_link",
                    subject=str(link),
                    problem=f"The link {link} is slow: it carries {rounded_rate(link.sent_bps)} "
                    f"with {min(link.depths_bytes) // 1000} kB waiting for it; by the topology it "
                    f"is one of {rounded_rate(rate_bps)}.",
                    remedy=_SLOW_REMEDIES[medium_of(seen, link.link)].format(
                        ends=_ends(seen, link.link), node=link.node
                    ),
                    nodes=(link.node, link.peer),
                    severity=1 - link.sent_bps / rate_bps,
                )


_SLOW_REMEDIES: Final[Mapping[Medium, str]] = {
    "emulated": "The process of {node} emulates its rate, and had no time to send: let fewer "
    "processes run on this machine, emulate a slower or smaller network (--rate), or take more "
    "cores.",
    "veth": "Look for another rate limit on it (`tc -s qdisc` in the namespaces of {ends}), or for "
    "a machine that has no time to send. Plans that avoid it: `innet plan`.",
    "path": "Measure the path between {ends} (iperf3); look for another rate limit on it (`tc "
    "qdisc`), or for a machine that has no time to send. Plans that avoid it: `innet plan`.",
}


_FULL_SHARE = 0.8
_FEW_SENT = 100
_DROPPED_SHARE = 0.01


class FullQueue:
    """A queue that is full at both looks, or that drops packets."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each queue."""
        for link in seen.links():
            always_full = min(link.depths_bytes) >= _FULL_SHARE * link.link.queue_bytes
            drops = link.dropped_queue > _DROPPED_SHARE * max(link.packets_out, _FEW_SENT)
            when = "at both looks" if always_full else "at times"
            if always_full or drops:
                yield Finding(
                    check="full_queue",
                    subject=str(link),
                    problem=f"The queue of {link} ({link.link.queue_bytes // 1024} KiB) is full "
                    f"{when}; {link.dropped_queue} packets were dropped within "
                    f"{link.span_s:.1f} s.",
                    remedy="The link is overloaded: choose a plan that loads it less "
                    "(`innet plan` shows the load), a smaller transport.max_window, or a faster "
                    "link."
                    + (
                        " Traffic of other programs on the path does not slow down for innet's."
                        if medium_of(seen, link.link) == "path"
                        else ""
                    ),
                    nodes=(link.node, link.peer),
                    severity=link.dropped_queue,
                )


_LOST_SHARE = 0.005
_MISSING_SHARE = 0.03
"""The kernel's queue is read later than the packets that it may have dropped."""
_FEW_PACKETS = 200
_REPEATED_SHARE = 0.02


class LossyLink:
    """A link that loses packets, or a host that retransmits many Interests."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each lossy direction; without any, one for each host that retransmits."""
        lossy = [f for link in seen.links() if (f := self._lossy(seen, link)) is not None]
        yield from lossy
        if not lossy:
            for node in seen.nodes():
                yield from self._repeating(node)

    @staticmethod
    def is_undecided(seen: Observation) -> bool:
        """Whether packets are missing or repeated that are lost or late: a longer look shows it."""
        passages = [link.passage for link in seen.links() if LossyLink._lossy(seen, link) is None]
        return any(
            passage is not None and passage.missing > _MISSING_SHARE * passage.sent
            for passage in passages
        ) or any(
            0 < node.asked < _FEW_PACKETS and node.repeated > _REPEATED_SHARE * node.asked
            for node in seen.nodes()
        )

    @staticmethod
    def _lossy(seen: Observation, link: LinkPair) -> Finding | None:
        passage = link.passage
        if link.packets_out >= _FEW_PACKETS and link.dropped_loss > _LOST_SHARE * link.packets_out:
            lost, sent, span_s = link.dropped_loss, link.packets_out, link.span_s
        elif (
            passage is not None
            and passage.datagrams >= _FEW_PACKETS
            and passage.missing - passage.under_way > _MISSING_SHARE * passage.sent
        ):
            lost, sent, span_s = passage.missing, passage.sent, passage.span_s
        else:
            return None
        return Finding(
            check="lossy_link",
            subject=str(link),
            problem=f"The link {link} lost {lost} of {sent} packets "
            f"({100 * lost / sent:.1f} %) within {span_s:.1f} s; by the topology "
            f"it loses {100 * link.link.loss:g} %.",
            remedy=f"Every lost packet is retransmitted after a round trip or more. "
            f"{_LOSSY_REMEDIES[medium_of(seen, link.link)].format(ends=_ends(seen, link.link))}",
            cause="link",
            nodes=(link.node, link.peer),
            severity=lost / sent,
        )

    @staticmethod
    def _repeating(node: NodePair) -> Iterator[Finding]:
        asked, repeated = node.asked, node.repeated
        if asked >= _FEW_PACKETS and repeated > _REPEATED_SHARE * asked:
            yield Finding(
                check="lossy_link",
                subject=node.name,
                problem=f"{node.name} retransmitted {repeated} of {asked} Interests "
                f"({100 * repeated / asked:.1f} %) within {node.span_s:.1f} s, and no link shows "
                "losses that would explain it.",
                remedy="Answers are late, or lost where no counter shows it: look for slow nodes "
                "(a shared processor), or raise transport.min_rto_s.",
                cause="repetitions",
                severity=repeated / asked,
            )


_LOSSY_REMEDIES: Final[Mapping[Medium, str]] = {
    "emulated": "The link is emulated: a loss beyond that of the topology means that the receiver "
    "had no time to read (`innet doctor` names starved nodes).",
    "veth": "Look at both ports ({ends}) in their namespaces: `tc -s qdisc` and `ip -s link` count "
    "what they drop.",
    "path": "On the path between {ends} look for a bad cable, a wrong duplex mode, a lower rate "
    "(iperf3, tc qdisc) or full buffers (ethtool -S, netstat -su).",
}


class RefusedSends:
    """A link that takes no datagrams of the size that it took when the network was launched."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each direction."""
        for link in seen.links():
            if link.refused_sends:
                yield Finding(
                    check="refused_sends",
                    subject=str(link),
                    problem=f"The kernel refused {link.refused_sends} datagrams of {link.node} to "
                    f"{link.peer} within {link.span_s:.1f} s: they are larger than the path takes "
                    "now, or a firewall rejects them.",
                    remedy="Compare the path's MTU (`ip route get`, `tracepath`) with that of the "
                    "launch. Where it has become smaller, take the network down and launch it "
                    "again: it finds the size anew.",
                    severity=link.refused_sends,
                )


class RefusedPackets:
    """A face that receives malformed packets, or packets with an invalid signature."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each face and reason."""
        for link in seen.links():
            for packets, reason in (
                (link.malformed_in, "malformed"),
                (link.invalid_in, "not signed correctly"),
            ):
                if packets:
                    yield Finding(
                        check="refused_packets",
                        subject=str(link),
                        problem=f"{link.peer} dropped {packets} packets from {link.node} within "
                        f"{link.span_s:.1f} s: they are {reason}.",
                        remedy="Something on that link changes packets, or a program outside the "
                        "run sends them. `innet capture --at` on that link shows them; "
                        "results are late at worst, not wrong.",
                        cause=reason,
                        severity=packets,
                    )
