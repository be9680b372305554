"""Which metrics a node has, and where each is in its answer (see ``NodeAgent.status``).

Names follow Prometheus' conventions: a counter ends in ``_total``, base units stand before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: as it is exposed; without ``_total``, which counters get by themselves.
        help: what it is.
        kind: a counter starts from 0 with the node's process.
        path: keys that lead to the value.
    """

    name: str
    help: str
    kind: Literal["counter", "gauge"]
    path: tuple[str, ...]


def _counters(table: str, *entries: tuple[str, str, str]) -> tuple[Family, ...]:
    return tuple(
        Family(f"innet_{name}", text, "counter", (table, key) if table else (key,))
        for name, key, text in entries
    )


def _gauges(table: str, *entries: tuple[str, str, str]) -> tuple[Family, ...]:
    return tuple(
        Family(f"innet_{name}", text, "gauge", (table, key) if table else (key,))
        for name, key, text in entries
    )


OF_NODE: tuple[Family, ...] = (
    *_counters("", ("process_cpu_seconds", "cpu_s", "Processor time of the node's process")),
    *_gauges(
        "",
        ("process_resident_memory_bytes", "resident_bytes", "Memory of the node's process"),
        ("uptime_seconds", "uptime_s", "Time since the node's process came up"),
        ("clock_seconds", "time_s", "The node's clock, Unix time"),
        ("reduction_slots", "slots", "Reductions that a switch may work on at once"),
        ("packet_memory_bytes", "pool_bytes_in_use", "Memory of packets that are held"),
    ),
    *_counters(
        "node",
        ("malformed_packets", "malformed", "Packets that could not be parsed"),
        ("looped_interests", "loops", "Interests that came back"),
        ("aggregated_interests", "pit_aggregated", "Interests that found one under way"),
        ("satisfied_interests", "pit_satisfied", "Interests that Data answered"),
        ("expired_interests", "pit_expired", "Interests that nobody answered in time"),
        ("pit_full", "pit_full", "Interests refused because the PIT was full"),
        ("unsolicited_data", "unsolicited_data", "Data that nobody had asked for"),
        ("invalid_signatures", "invalid_signature", "Data whose signature was wrong"),
        ("unknown_keys", "unknown_key", "Data signed with a key that is not trusted"),
        ("keys_out_of_scope", "key_out_of_scope", "Data signed with a key for other names"),
        ("expired_keys", "key_expired", "Data signed with a key whose time is over"),
        ("no_route", "no_route", "Interests refused for want of a route"),
        ("no_rule", "no_rule", "Interests refused for want of a reduction rule"),
        ("scope_violations", "scope_violations", "Packets of /localhost from another machine"),
        ("over_share", "over_share", "Interests refused to faces with their share of the PIT"),
        ("too_large", "too_large", "Packets larger than a face takes"),
        ("reassemblies_failed", "reassemblies_failed", "Packets of which fragments were missing"),
        ("reflexive_interests", "reflexive_interests", "Interests sent back to who asks"),
        ("reflexive_refused", "reflexive_refused", "Reflexive names refused: no such way back"),
        ("reflexive_full", "reflexive_full", "Interests refused: their face had many ways back"),
        ("strategy_probes", "strategy_probes", "Interests sent to measure a next hop alone"),
        ("strategy_copies", "strategy_copies", "Interests sent to more next hops than one"),
        ("strategy_late", "strategy_late", "Decisions of strategies outside that came too late"),
        (
            "strategy_crowded_out",
            "strategy_crowded_out",
            "Decisions that strategies outside had no room for",
        ),
        ("strategy_failed", "strategy_failed", "Decisions that strategies outside failed at"),
        ("faces_opened", "faces_opened", "NDN programs that connected"),
        ("faces_refused", "faces_refused", "Those refused because there were too many"),
        ("faces_evicted", "faces_evicted", "UDP peers forgotten to make room for others"),
        ("bad_framing", "bad_framing", "Faces closed: what came could not be cut into packets"),
        ("foreign_protocol", "foreign_protocol", "Faces closed: the peer spoke another protocol"),
        ("sent_malformed", "sent_malformed", "Connections closed at their first malformed packet"),
        ("cache_hits", "cache_hits", "Interests answered from the content store"),
        ("cache_misses", "cache_misses", "Interests that the content store could not answer"),
        ("cache_inserts", "cache_inserts", "Packets put into the content store"),
        ("cache_evictions", "cache_evictions", "Packets that made room for others"),
    ),
    *_gauges(
        "node",
        ("pending_interests", "pit_entries", "Interests in the PIT"),
        ("reflexive_routes", "reflexive_routes", "Ways back that pending Interests have"),
        ("cache_bytes", "cache_bytes", "Bytes in the content store"),
        ("cache_unverified_bytes", "cache_unverified_bytes", "Of these, Data of unknown keys"),
        ("cache_packets", "cache_entries", "Packets in the content store"),
    ),
    *_counters(
        "reducer",
        ("reductions_started", "reductions_started", "Reductions that took a slot"),
        ("reductions_completed", "reductions_completed", "Reductions that gave a result"),
        ("reductions_abandoned", "reductions_abandoned", "Reductions that nobody wanted any more"),
        (
            "reductions_parked",
            "reductions_parked",
            "Reductions that gave up their slot for a while",
        ),
        ("reductions_refused", "refused_no_slot", "Reductions refused for want of a slot"),
        (
            "fallback_evaluations",
            "fallback_evaluations",
            "Reductions made for a node that could not",
        ),
        ("operand_retransmissions", "operand_retransmissions", "Operands asked for again"),
        ("mismatches", "mismatches", "Reductions of operands that do not fit"),
        ("overflows", "overflows", "Integer reductions that left their type"),
    ),
    *_gauges(
        "reducer",
        ("reduction_slots_in_use", "slots_in_use", "Reductions under way"),
        ("reduction_slots_in_use_max", "slots_in_use_max", "The most there have been at once"),
    ),
    *_counters(
        "endpoint",
        ("interests_expressed", "interests_expressed", "Interests of this host's application"),
        ("segments_fetched", "segments_fetched", "Segments that arrived for the application"),
        ("fetched_bytes", "bytes_fetched", "Bytes that arrived for the application"),
        ("segments_served", "segments_served", "Segments that the application published and gave"),
        ("retransmissions_by_gap", "retransmissions_by_gap", "Repeated: later ones were answered"),
        ("retransmissions_by_timeout", "retransmissions_by_timeout", "Repeated after a timeout"),
        ("holds_received", "holds_received", "Answers that somebody is late"),
        ("self_evaluations", "self_evaluations", "Reductions that the asker made itself"),
        ("congestion_marks", "marks_received", "Answers with a congestion mark"),
    ),
    *_counters(
        "management",
        ("commands", "commands", "Management commands that were carried out, or had wrong values"),
        ("commands_malformed", "malformed", "Management commands that could not be read"),
        ("commands_forbidden", "forbidden", "Management commands of who may not give them"),
        ("commands_replayed", "replayed", "Of these, commands that were given before"),
        (
            "announcements_forbidden",
            "announcements_forbidden",
            "Likewise, prefix announcements whose key may not command",
        ),
        ("commands_keyless", "keyless", "Likewise, over TCP or UDP while no keys are listed"),
        ("commands_stale", "stale", "Likewise of those, commands that bear another time than now"),
        ("commands_without_room", "full", "Management commands refused: a table was full"),
        ("dataset_requests", "datasets", "Interests for management's datasets"),
    ),
    *_gauges("management", ("registered_routes", "routes", "Routes that clients have registered")),
    *_gauges("endpoint", ("retained_bytes", "retained_bytes", "Published bytes that are kept")),
)
"""Labels: ``node``."""

OF_FACE: tuple[Family, ...] = (
    *_counters(
        "",
        *((f"{what}_{way}", f"{what}_{way}", f"{what.capitalize()} {words}")
          for what in ("interests", "data", "nacks", "holds")
          for way, words in (("in", "received on a face"), ("out", "sent on a face"))),
        ("received_bytes", "bytes_in", "Bytes received on a face"),
        ("sent_bytes", "bytes_out", "Bytes sent on a face"),
        ("face_malformed_packets", "malformed_in", "Packets of a face that could not be parsed"),
        ("face_invalid_signatures", "invalid_signature_in", "Data of a face, signed wrongly"),
        ("send_errors", "send_errors", "System calls to send that failed"),
    ),
)  # fmt: skip
"""Labels: ``node``, ``face``, ``peer``."""

OF_LINK: tuple[Family, ...] = (
    *_counters(
        "",
        ("link_sent_bytes", "sent_bytes", "Bytes that left a link's queue"),
        ("link_queue_dropped_packets", "dropped_queue", "Packets that found a link's queue full"),
        ("link_lost_packets", "dropped_loss", "Packets that an emulated link lost"),
        ("link_marked_packets", "marked", "Packets that a link's queue marked"),
    ),
    *_gauges("", ("link_queue_bytes", "depth_bytes", "Bytes in a link's queue")),
)
"""Labels: ``node``, ``peer``: one direction of a link."""
