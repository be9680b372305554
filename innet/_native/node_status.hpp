#pragma once
// What a node tells about itself.

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
    std::vector<std::string> operations;
    std::string last_unroutable;
    std::size_t pool_bytes_in_use = 0;
    std::size_t pool_bytes_reserved = 0;
};

/// What one direction of a link has counted since it was made.
nanobind::typed<nanobind::dict, nanobind::str, std::uint64_t> link_counters_dict(
    const simulation::LinkCounters& link);

NodeStatus read_status(driver::Engine& engine, std::vector<driver::LinkStatus> links);
nanobind::typed<nanobind::dict, nanobind::str, nanobind::any> status_dict(const NodeStatus& status);

}  // namespace innet::bindings
