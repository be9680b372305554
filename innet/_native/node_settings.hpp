#pragma once
// Sizes and timers of a node, as Python gives them.

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

#include "switch_emulator/forwarding/node.hpp"
#include "transport/endpoint/endpoint.hpp"

namespace innet::bindings {

/// Converts a user's seconds to a duration: bounded, because infinity would overflow the clock. NaN
/// counts as 0.
Duration from_seconds(double seconds);

struct NodeSettings {
    std::string own_name;
    std::uint64_t seed = 1;
    std::uint32_t reduction_slots = 4096;
    std::size_t cache_bytes = 0;
    std::string cache_policy = "s3fifo";
    std::size_t pit_capacity = 65536;
    double interest_lifetime_s = 1.0;
    double min_rto_s = 0.005;
    double max_rto_s = 0.5;
    std::uint32_t timeouts_before_self_evaluation = 5;
    std::uint32_t initial_window = 16;
    std::uint32_t max_window = 512;
    std::uint64_t receive_credit_bytes = 0;
    double receive_rate_bps = 0;
    std::uint32_t evaluation_window = 512;
    double target_queue_delay_s = 0.005;
    double link_timeout_s = 0;
    std::string link_repetition = "lossy";
    std::uint32_t virtual_scale = 1;
};

/// Throws ValueError when a setting has no meaning.
forwarding::NodeOptions node_options(const NodeSettings& settings);
EndpointOptions endpoint_options(const NodeSettings& settings);

void bind_settings(nanobind::module_& module);

}  // namespace innet::bindings
