#pragma once
// What a counter is called and what it means, written down once, beside the counter. The status
// document, telemetry, Prometheus and docs/counters.md derive from these tables.

#include <array>
#include <cstdint>
#include <string_view>

namespace innet {

enum class MetricKind : std::uint8_t {
    kCounter,  ///< starts at 0 with the node and only grows
    kGauge,
};

/// One member of a struct of counters. `Counters::metrics()` gives all, in the order of the status
/// document.
template <class Counters>
struct Metric {
    std::string_view key;         ///< in status documents and telemetry
    std::string_view prometheus;  ///< without `innet_` and `_total`; empty: not exposed
    MetricKind kind;
    std::string_view help;  ///< without a full stop
    std::uint64_t Counters::* member;
};

/// Of a struct that holds nothing but 64-bit counters.
template <class Counters>
constexpr bool has_metric_for_each_member() {
    return sizeof(Counters) == Counters::metrics().size() * sizeof(std::uint64_t);
}

}  // namespace innet
