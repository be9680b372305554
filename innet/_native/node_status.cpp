#include "innet/_native/node_status.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <utility>

#include "innet/_native/network_text.hpp"
#include "switch_emulator/management/face_ids.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

template <class Counters>
void add_counters(nb::dict& d, const Counters& counters) {
    for (const Metric<Counters>& metric : Counters::metrics()) {
        d[nb::str(metric.key.data(), metric.key.size())] = counters.*metric.member;
    }
}

template <class... Counters>
nb::dict counters_dict(const Counters&... counters) {
    nb::dict d;
    (add_counters(d, counters), ...);
    return d;
}

template <class Counters>
void add_descriptions(nb::list& descriptions) {
    for (const Metric<Counters>& metric : Counters::metrics()) {
        descriptions.append(
            nb::make_tuple(metric.key, metric.prometheus,
                           metric.kind == MetricKind::kCounter ? "counter" : "gauge", metric.help));
    }
}

template <class... Counters>
nb::list descriptions_of() {
    nb::list descriptions;
    (add_descriptions<Counters>(descriptions), ...);
    return descriptions;
}

nb::dict link_dict(const driver::LinkStatus& link) {
    nb::dict d = counters_dict(link.face_counters, link.socket_counters);
    d["face"] = link.face;
    d["port"] = link_counters_dict(link.link_counters);
    d["backlog_packets"] = link.backlog_packets;
    d["backlog_dropped"] = link.backlog_dropped;
    d["silent"] = link.silent;
    return d;
}

nb::dict operation_dict(const OperationProgress& operation) {
    nb::dict d;
    d["number"] = operation.id;
    nb::list late;
    for (const std::string& label : operation.late) late.append(NetworkText{label});
    d["late"] = late;
    d["missing"] = NetworkText{operation.missing};
    return d;
}

nb::dict foreign_face_dict(const driver::LinkStatus& link) {
    nb::dict d = link_dict(link);
    d["face_id"] = management::shown_face_id(link.number);
    d["remote_uri"] = NetworkText{link.remote_uri};
    d["backlog_bytes"] = link.backlog_bytes;
    d["queued_max_bytes"] = link.queued_max_bytes;
    d["congestion_marked"] = link.congestion_marked;
    d["dropped_paused"] = link.dropped_paused;
    return d;
}

nb::dict rule_dict(const reduction::Rule& rule) {
    nb::dict d;
    d["group"] = rule.group.view().to_uri();
    d["interval"] = rule.interval.view().to_uri().substr(1);
    d["primary"] = rule.primary;
    nb::list operands;
    for (const reduction::Operand& operand : rule.operands) {
        operands.append(nb::make_tuple(operand.interval.view().to_uri().substr(1),
                                       operand.hint.view().to_uri()));
    }
    d["operands"] = operands;
    return d;
}

nb::dict job_dict(const forwarding::JobStatus& job) {
    nb::dict d;
    d["prefix"] = job.prefix.view().to_uri();
    d["weight"] = job.weight;
    d["slots_in_use"] = job.slots.in_use;
    d["slots_in_use_max"] = job.slots.in_use_max;
    d["slots_guaranteed"] = job.slots.guaranteed;
    d["refused_no_slot"] = job.slots.refused_no_slot;
    d["slots_taken_back"] = job.slots.taken_back;
    d["pit_entries"] = job.pit_entries;
    d["pit_guaranteed"] = job.pit_guaranteed;
    d["pit_refused"] = job.pit_refused;
    d["cache_bytes"] = job.cache_bytes;
    d["cache_guaranteed_bytes"] = job.cache_guaranteed_bytes;
    return d;
}

}  // namespace

NodeStatus read_status(driver::Engine& engine, std::vector<driver::LinkStatus> links,
                       bool with_rules) {
    NodeStatus status;
    status.node = engine.node.counters();
    status.reducer = engine.node.reducer().counters();
    status.endpoint = engine.endpoint.counters();
    status.management = engine.management.counters();
    status.links = std::move(links);
    status.routes = engine.node.routes();
    if (with_rules) status.rules = engine.node.reducer().rules();
    status.jobs = engine.node.jobs();
    status.last_unroutable = engine.node.last_unroutable().to_uri();
    status.operations = engine.endpoint.describe_operations();
    status.pool_bytes_in_use = engine.pool.bytes_in_use();
    status.pool_bytes_reserved = engine.pool.bytes_reserved();
    return status;
}

nb::typed<nb::dict, nb::str, std::uint64_t> link_counters_dict(
    const simulation::LinkCounters& link) {
    const nb::dict d = counters_dict(link.port, link);
    return nb::typed<nb::dict, nb::str, std::uint64_t>(d);
}

nb::typed<nb::dict, nb::str, nb::any> status_dict(const NodeStatus& status) {
    nb::dict d;
    d["node"] = counters_dict(status.node, status.faces);
    d["reducer"] = counters_dict(status.reducer);
    d["endpoint"] = counters_dict(status.endpoint);
    d["management"] = counters_dict(status.management);
    nb::list links;
    nb::list foreign_faces;
    for (const driver::LinkStatus& link : status.links) {
        if (link.foreign) {
            foreign_faces.append(foreign_face_dict(link));
        } else {
            links.append(link_dict(link));
        }
    }
    d["links"] = links;
    d["foreign_faces"] = foreign_faces;
    nb::list listeners;
    for (const std::string& uri : status.listeners) listeners.append(NetworkText{uri});
    d["listeners"] = listeners;
    nb::list routes;
    for (const auto& route : status.routes) {
        routes.append(nb::make_tuple(route.prefix.view().to_uri(), route.face, route.cost));
    }
    d["routes"] = routes;
    nb::list rules;
    for (const reduction::Rule& rule : status.rules) {
        rules.append(rule_dict(rule));
    }
    d["rules"] = rules;
    nb::list jobs;
    for (const forwarding::JobStatus& job : status.jobs) {
        jobs.append(job_dict(job));
    }
    d["jobs"] = jobs;
    nb::list operations;
    for (const OperationProgress& operation : status.operations) {
        operations.append(operation_dict(operation));
    }
    d["operations"] = operations;
    d["last_unroutable"] = status.last_unroutable;
    d["pool_bytes_in_use"] = status.pool_bytes_in_use;
    d["pool_bytes_reserved"] = status.pool_bytes_reserved;
    return nb::typed<nb::dict, nb::str, nb::any>(d);
}

nb::typed<nb::dict, nb::str, MetricDescriptions> describe_metrics() {
    nb::dict d;
    d["node"] = descriptions_of<forwarding::NodeCounters, driver::FaceTableCounters>();
    d["reducer"] = descriptions_of<reduction::ReducerCounters>();
    d["endpoint"] = descriptions_of<EndpointCounters>();
    d["management"] = descriptions_of<management::ManagementCounters>();
    d["links"] = descriptions_of<forwarding::FaceCounters, driver::SocketCounters>();
    d["port"] = descriptions_of<port::PortCounters, simulation::LinkCounters>();
    return nb::typed<nb::dict, nb::str, MetricDescriptions>(d);
}

}  // namespace innet::bindings
