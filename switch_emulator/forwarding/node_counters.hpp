#pragma once
// What a node and its faces count, since the node came up.

#include <array>
#include <cstdint>

#include "transport/metric.hpp"

namespace innet::forwarding {

struct FaceCounters {
    std::uint64_t interests_in = 0;
    std::uint64_t interests_out = 0;
    std::uint64_t data_in = 0;
    std::uint64_t data_out = 0;
    std::uint64_t nacks_in = 0;
    std::uint64_t nacks_out = 0;
    std::uint64_t holds_in = 0;
    std::uint64_t holds_out = 0;
    std::uint64_t bytes_in = 0;
    std::uint64_t bytes_out = 0;
    std::uint64_t malformed_in = 0;
    std::uint64_t invalid_signature_in = 0;
    std::uint64_t forbidden_in = 0;
    std::uint64_t scope_violations_in = 0;
    std::uint64_t commands_forbidden_in = 0;
    std::uint64_t over_share_in = 0;
    std::uint64_t reassembled_in = 0;
    std::uint64_t too_large_out = 0;
    std::uint64_t repeated_out = 0;
    std::uint64_t given_up_out = 0;
    std::uint64_t acknowledgements_out = 0;

    static constexpr auto metrics() {
        using enum MetricKind;
        return std::to_array<Metric<FaceCounters>>({
            {"interests_in", "interests_in", kCounter, "Interests received on a face",
             &FaceCounters::interests_in},
            {"interests_out", "interests_out", kCounter, "Interests sent on a face",
             &FaceCounters::interests_out},
            {"data_in", "data_in", kCounter, "Data received on a face", &FaceCounters::data_in},
            {"data_out", "data_out", kCounter, "Data sent on a face", &FaceCounters::data_out},
            {"nacks_in", "nacks_in", kCounter, "Nacks received on a face", &FaceCounters::nacks_in},
            {"nacks_out", "nacks_out", kCounter, "Nacks sent on a face", &FaceCounters::nacks_out},
            {"holds_in", "holds_in", kCounter, "Holds received on a face", &FaceCounters::holds_in},
            {"holds_out", "holds_out", kCounter, "Holds sent on a face", &FaceCounters::holds_out},
            {"bytes_in", "received_bytes", kCounter, "Bytes received on a face",
             &FaceCounters::bytes_in},
            {"bytes_out", "sent_bytes", kCounter, "Bytes sent on a face", &FaceCounters::bytes_out},
            {"malformed_in", "face_malformed_packets", kCounter,
             "Packets received on a face that could not be parsed", &FaceCounters::malformed_in},
            {"invalid_signature_in", "face_invalid_signatures", kCounter,
             "Data received on a face with a wrong signature", &FaceCounters::invalid_signature_in},
            {"forbidden_in", "face_forbidden_packets", kCounter,
             "Packets dropped because the face has no part in their job",
             &FaceCounters::forbidden_in},
            {"scope_violations_in", "face_scope_violations", kCounter,
             "Packets of /localhost received from another machine",
             &FaceCounters::scope_violations_in},
            {"commands_forbidden_in", "face_commands_forbidden", kCounter,
             "Management commands answered with 403", &FaceCounters::commands_forbidden_in},
            {"over_share_in", "face_over_share", kCounter,
             "Interests refused because the face had used its share of the PIT",
             &FaceCounters::over_share_in},
            {"reassembled_in", "face_reassembled_packets", kCounter,
             "Packets received in fragments", &FaceCounters::reassembled_in},
            {"too_large_out", "face_too_large", kCounter,
             "Packets not sent because the face takes smaller ones only",
             &FaceCounters::too_large_out},
            {"repeated_out", "face_repeated_packets", kCounter,
             "Packets sent again because the neighbour did not acknowledge them",
             &FaceCounters::repeated_out},
            {"given_up_out", "face_given_up_packets", kCounter,
             "Packets that the neighbour did not acknowledge and that were not sent again",
             &FaceCounters::given_up_out},
            {"acknowledgements_out", "face_acknowledgements", kCounter,
             "Packets sent to acknowledge others", &FaceCounters::acknowledgements_out},
        });
    }
};
static_assert(has_metric_for_each_member<FaceCounters>());

struct NodeCounters {
    std::uint64_t malformed = 0;
    std::uint64_t loops = 0;
    std::uint64_t pit_aggregated = 0;
    std::uint64_t pit_satisfied = 0;
    std::uint64_t pit_expired = 0;
    std::uint64_t pit_full = 0;
    std::uint64_t pit_entries = 0;
    std::uint64_t unsolicited_data = 0;
    std::uint64_t invalid_signature = 0;
    std::uint64_t unknown_key = 0;
    std::uint64_t key_out_of_scope = 0;
    std::uint64_t key_expired = 0;
    std::uint64_t mac_missing = 0;
    std::uint64_t forbidden_interests = 0;
    std::uint64_t forbidden_answers = 0;
    std::uint64_t no_route = 0;
    std::uint64_t no_rule = 0;
    std::uint64_t hop_limit_exceeded = 0;
    std::uint64_t scope_violations = 0;
    std::uint64_t over_share = 0;
    std::uint64_t too_large = 0;
    std::uint64_t reassemblies_failed = 0;
    std::uint64_t reflexive_routes = 0;
    std::uint64_t reflexive_interests = 0;
    std::uint64_t reflexive_refused = 0;
    std::uint64_t reflexive_full = 0;
    std::uint64_t strategy_probes = 0;
    std::uint64_t strategy_copies = 0;
    std::uint64_t strategy_late = 0;
    std::uint64_t strategy_crowded_out = 0;
    std::uint64_t strategy_failed = 0;
    std::uint64_t cache_hits = 0;
    std::uint64_t cache_misses = 0;
    std::uint64_t cache_inserts = 0;
    std::uint64_t cache_evictions = 0;
    std::uint64_t cache_bytes = 0;
    std::uint64_t cache_unverified_bytes = 0;
    std::uint64_t cache_entries = 0;

    static constexpr auto metrics() {
        using enum MetricKind;
        return std::to_array<Metric<NodeCounters>>({
            {"malformed", "malformed_packets", kCounter, "Packets that could not be parsed",
             &NodeCounters::malformed},
            {"loops", "looped_interests", kCounter,
             "Interests dropped because the same name and nonce arrived before",
             &NodeCounters::loops},
            {"pit_aggregated", "aggregated_interests", kCounter,
             "Interests added to a PIT entry that was pending", &NodeCounters::pit_aggregated},
            {"pit_satisfied", "satisfied_interests", kCounter, "Interests that Data satisfied",
             &NodeCounters::pit_satisfied},
            {"pit_expired", "expired_interests", kCounter, "Interests that expired unanswered",
             &NodeCounters::pit_expired},
            {"pit_full", "pit_full", kCounter, "Interests refused because the PIT was full",
             &NodeCounters::pit_full},
            {"pit_entries", "pending_interests", kGauge, "Interests in the PIT",
             &NodeCounters::pit_entries},
            {"unsolicited_data", "unsolicited_data", kCounter,
             "Data that matched no pending Interest", &NodeCounters::unsolicited_data},
            {"invalid_signature", "invalid_signatures", kCounter,
             "Data dropped because the signature was wrong", &NodeCounters::invalid_signature},
            {"unknown_key", "unknown_keys", kCounter,
             "Data signed by an unknown key: neither delivered nor added here, and not forwarded "
             "for a "
             "known job",
             &NodeCounters::unknown_key},
            {"key_out_of_scope", "keys_out_of_scope", kCounter,
             "Data dropped because the key may not sign the name", &NodeCounters::key_out_of_scope},
            {"key_expired", "expired_keys", kCounter, "Data dropped because the key has expired",
             &NodeCounters::key_expired},
            {"mac_missing", "macs_missing", kCounter,
             "Data not sent off the machine because this node has no key for its MAC, or the key "
             "can "
             "sign no more",
             &NodeCounters::mac_missing},
            {"forbidden_interests", "forbidden_interests", kCounter,
             "Interests dropped because the face has no part in their job",
             &NodeCounters::forbidden_interests},
            {"forbidden_answers", "forbidden_answers", kCounter,
             "Data, Nacks and Holds dropped because the face has no part in their job",
             &NodeCounters::forbidden_answers},
            {"no_route", "no_route", kCounter, "Interests refused because no route matched",
             &NodeCounters::no_route},
            {"no_rule", "no_rule", kCounter, "Interests refused because no reduction rule matched",
             &NodeCounters::no_rule},
            {"hop_limit_exceeded", "hop_limit_exceeded", kCounter,
             "Interests dropped because their hop limit was used up",
             &NodeCounters::hop_limit_exceeded},
            {"scope_violations", "scope_violations", kCounter,
             "Packets of /localhost from another machine, dropped",
             &NodeCounters::scope_violations},
            {"over_share", "over_share", kCounter,
             "Interests refused because their face had used its share of the PIT",
             &NodeCounters::over_share},
            {"too_large", "too_large", kCounter,
             "Packets not sent because the face takes smaller ones only", &NodeCounters::too_large},
            {"reassemblies_failed", "reassemblies_failed", kCounter,
             "Packets dropped because fragments were missing", &NodeCounters::reassemblies_failed},
            {"reflexive_routes", "reflexive_routes", kGauge,
             "Reflexive routes that pending Interests hold", &NodeCounters::reflexive_routes},
            {"reflexive_interests", "reflexive_interests", kCounter,
             "Interests sent back along a reflexive route", &NodeCounters::reflexive_interests},
            {"reflexive_refused", "reflexive_refused", kCounter,
             "Reflexive Interests refused because no such route exists for their sender",
             &NodeCounters::reflexive_refused},
            {"reflexive_full", "reflexive_full", kCounter,
             "Interests refused because their face held too many reflexive routes",
             &NodeCounters::reflexive_full},
            {"strategy_probes", "strategy_probes", kCounter,
             "Interests sent to measure one next hop", &NodeCounters::strategy_probes},
            {"strategy_copies", "strategy_copies", kCounter,
             "Copies of Interests sent to further next hops", &NodeCounters::strategy_copies},
            {"strategy_late", "strategy_late", kCounter,
             "External strategy decisions that missed the deadline", &NodeCounters::strategy_late},
            {"strategy_crowded_out", "strategy_crowded_out", kCounter,
             "External strategy decisions dropped because the queue was full",
             &NodeCounters::strategy_crowded_out},
            {"strategy_failed", "strategy_failed", kCounter,
             "External strategy decisions that raised an error", &NodeCounters::strategy_failed},
            {"cache_hits", "cache_hits", kCounter, "Interests answered from the content store",
             &NodeCounters::cache_hits},
            {"cache_misses", "cache_misses", kCounter,
             "Interests that the content store could not answer", &NodeCounters::cache_misses},
            {"cache_inserts", "cache_inserts", kCounter, "Packets stored in the content store",
             &NodeCounters::cache_inserts},
            {"cache_evictions", "cache_evictions", kCounter,
             "Packets evicted from the content store", &NodeCounters::cache_evictions},
            {"cache_bytes", "cache_bytes", kGauge, "Bytes in the content store",
             &NodeCounters::cache_bytes},
            {"cache_unverified_bytes", "cache_unverified_bytes", kGauge,
             "Bytes of Data signed by unknown keys in the content store",
             &NodeCounters::cache_unverified_bytes},
            {"cache_entries", "cache_packets", kGauge, "Packets in the content store",
             &NodeCounters::cache_entries},
        });
    }
};
static_assert(has_metric_for_each_member<NodeCounters>());

}  // namespace innet::forwarding
