#pragma once
// A node's status, as Python reads it.

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

#include "switch_emulator/driver/link_status.hpp"
#include "switch_emulator/driver/link_table.hpp"
#include "switch_emulator/driver/node_stack.hpp"

namespace innet::bindings {

/// A copy taken on the node's thread; turned into Python objects afterwards, on the caller's.
struct NodeStatus {
    forwarding::NodeCounters node;
    reduction::ReducerCounters reducer;
    management::ManagementCounters management;
    EndpointCounters endpoint;
    std::vector<driver::LinkStatus> links;
    driver::FaceTableCounters faces;
    std::vector<std::string> listeners;  ///< URIs where NDN programs connect
    std::vector<forwarding::Route> routes;
    std::vector<reduction::Rule> rules;
    std::vector<forwarding::JobStatus> jobs;
    std::vector<OperationProgress> operations;
    std::string last_unroutable;
    std::size_t pool_bytes_in_use = 0;
    std::size_t pool_bytes_reserved = 0;
};

/// Counters of one direction of a link since its creation.
nanobind::typed<nanobind::dict, nanobind::str, std::uint64_t> link_counters_dict(
    const simulation::LinkCounters& link);

using MetricDescription =
    nanobind::typed<nanobind::tuple, nanobind::str, nanobind::str, nanobind::str, nanobind::str>;
using MetricDescriptions = nanobind::typed<nanobind::list, MetricDescription>;

/// Of each table of counters in a status: (key, Prometheus name, kind, help) of each.
nanobind::typed<nanobind::dict, nanobind::str, MetricDescriptions> describe_metrics();

/// Without the rules of reductions, which are many where groups are large, it takes the node's
/// thread and its reader much less time.
NodeStatus read_status(driver::Engine& engine, std::vector<driver::LinkStatus> links,
                       bool with_rules = true);
nanobind::typed<nanobind::dict, nanobind::str, nanobind::any> status_dict(const NodeStatus& status);

}  // namespace innet::bindings
