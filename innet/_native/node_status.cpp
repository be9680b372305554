#include "innet/_native/node_status.hpp"

#include <nanobind/stl/string.h>

#include <utility>

#include "innet/_native/network_text.hpp"
#include "switch_emulator/management/face_ids.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

nb::dict node_dict(const forwarding::NodeCounters& c) {
    nb::dict d;
    d["malformed"] = c.malformed;
    d["loops"] = c.loops;
    d["pit_aggregated"] = c.pit_aggregated;
    d["pit_satisfied"] = c.pit_satisfied;
    d["pit_expired"] = c.pit_expired;
    d["pit_full"] = c.pit_full;
    d["pit_entries"] = c.pit_entries;
    d["unsolicited_data"] = c.unsolicited_data;
    d["invalid_signature"] = c.invalid_signature;
    d["unknown_key"] = c.unknown_key;
    d["key_out_of_scope"] = c.key_out_of_scope;
    d["key_expired"] = c.key_expired;
    d["forbidden_interests"] = c.forbidden_interests;
    d["forbidden_answers"] = c.forbidden_answers;
    d["no_route"] = c.no_route;
    d["no_rule"] = c.no_rule;
    d["hop_limit_exceeded"] = c.hop_limit_exceeded;
    d["scope_violations"] = c.scope_violations;
    d["over_share"] = c.over_share;
    d["too_large"] = c.too_large;
    d["reassemblies_failed"] = c.reassemblies_failed;
    d["reflexive_routes"] = c.reflexive_routes;
    d["reflexive_interests"] = c.reflexive_interests;
    d["reflexive_refused"] = c.reflexive_refused;
    d["reflexive_full"] = c.reflexive_full;
    d["strategy_probes"] = c.strategy_probes;
    d["strategy_copies"] = c.strategy_copies;
    d["strategy_late"] = c.strategy_late;
    d["strategy_crowded_out"] = c.strategy_crowded_out;
    d["strategy_failed"] = c.strategy_failed;
    d["cache_hits"] = c.cache_hits;
    d["cache_misses"] = c.cache_misses;
    d["cache_inserts"] = c.cache_inserts;
    d["cache_evictions"] = c.cache_evictions;
    d["cache_bytes"] = c.cache_bytes;
    d["cache_unverified_bytes"] = c.cache_unverified_bytes;
    d["cache_entries"] = c.cache_entries;
    return d;
}

nb::dict reducer_dict(const reduction::ReducerCounters& c) {
    nb::dict d;
    d["reductions_started"] = c.reductions_started;
    d["reductions_completed"] = c.reductions_completed;
    d["reductions_abandoned"] = c.reductions_abandoned;
    d["reductions_parked"] = c.reductions_parked;
    d["refused_no_slot"] = c.refused_no_slot;
    d["slots_taken_back"] = c.slots_taken_back;
    d["fallback_evaluations"] = c.fallback_evaluations;
    d["operand_retransmissions"] = c.operand_retransmissions;
    d["mismatches"] = c.mismatches;
    d["overflows"] = c.overflows;
    d["slots_in_use"] = c.slots_in_use;
    d["slots_in_use_max"] = c.slots_in_use_max;
    d["flows"] = c.flows;
    return d;
}

nb::dict management_dict(const management::ManagementCounters& c) {
    nb::dict d;
    d["commands"] = c.commands;
    d["malformed"] = c.malformed;
    d["forbidden"] = c.forbidden;
    d["replayed"] = c.replayed;
    d["stale"] = c.stale;
    d["keyless"] = c.keyless;
    d["announcements_forbidden"] = c.announcements_forbidden;
    d["full"] = c.full;
    d["datasets"] = c.datasets;
    d["routes"] = c.routes;
    return d;
}

nb::dict endpoint_dict(const EndpointCounters& c) {
    nb::dict d;
    d["interests_expressed"] = c.interests_expressed;
    d["segments_fetched"] = c.segments_fetched;
    d["bytes_fetched"] = c.bytes_fetched;
    d["segments_served"] = c.segments_served;
    d["retransmissions_by_gap"] = c.retransmissions_by_gap;
    d["retransmissions_by_timeout"] = c.retransmissions_by_timeout;
    d["refreshes_of_held"] = c.refreshes_of_held;
    d["holds_received"] = c.holds_received;
    d["nacks_received"] = c.nacks_received;
    d["self_evaluations"] = c.self_evaluations;
    d["marks_received"] = c.marks_received;
    d["unexpected_data"] = c.unexpected_data;
    d["forged_roots"] = c.forged_roots;
    d["retained_bytes"] = c.retained_bytes;
    d["flows"] = c.flows;
    return d;
}

nb::dict face_dict(const forwarding::FaceCounters& c) {
    nb::dict d;
    d["interests_in"] = c.interests_in;
    d["interests_out"] = c.interests_out;
    d["data_in"] = c.data_in;
    d["data_out"] = c.data_out;
    d["nacks_in"] = c.nacks_in;
    d["nacks_out"] = c.nacks_out;
    d["holds_in"] = c.holds_in;
    d["holds_out"] = c.holds_out;
    d["bytes_in"] = c.bytes_in;
    d["bytes_out"] = c.bytes_out;
    d["malformed_in"] = c.malformed_in;
    d["invalid_signature_in"] = c.invalid_signature_in;
    d["forbidden_in"] = c.forbidden_in;
    d["scope_violations_in"] = c.scope_violations_in;
    d["commands_forbidden_in"] = c.commands_forbidden_in;
    d["over_share_in"] = c.over_share_in;
    d["reassembled_in"] = c.reassembled_in;
    d["too_large_out"] = c.too_large_out;
    return d;
}

nb::dict link_dict(const driver::LinkStatus& link) {
    nb::dict d = face_dict(link.face_counters);
    d["face"] = link.face;
    d["port"] = link_counters_dict(link.link_counters);
    d["receive_calls"] = link.socket_counters.receive_calls;
    d["send_calls"] = link.socket_counters.send_calls;
    d["messages_sent"] = link.socket_counters.messages_sent;
    d["refused"] = link.socket_counters.refused;
    d["send_errors"] = link.socket_counters.send_errors;
    d["dropped_framing"] = link.socket_counters.dropped_framing;
    d["backlog_packets"] = link.backlog_packets;
    d["backlog_dropped"] = link.backlog_dropped;
    d["silent"] = link.silent;
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

NodeStatus read_status(driver::Engine& engine, std::vector<driver::LinkStatus> links) {
    NodeStatus status;
    status.node = engine.node.counters();
    status.reducer = engine.node.reducer().counters();
    status.endpoint = engine.endpoint.counters();
    status.management = engine.management.counters();
    status.links = std::move(links);
    status.routes = engine.node.routes();
    status.rules = engine.node.reducer().rules();
    status.jobs = engine.node.jobs();
    status.last_unroutable = engine.node.last_unroutable().to_uri();
    status.operations = engine.endpoint.describe_operations();
    status.pool_bytes_in_use = engine.pool.bytes_in_use();
    status.pool_bytes_reserved = engine.pool.bytes_reserved();
    return status;
}

nb::typed<nb::dict, nb::str, std::uint64_t> link_counters_dict(
    const simulation::LinkCounters& link) {
    const port::PortCounters& c = link.port;
    nb::dict d;
    d["enqueued"] = c.enqueued;
    d["sent"] = c.sent;
    d["sent_bytes"] = c.bytes;
    d["dropped_queue"] = c.dropped_queue;
    d["dropped_loss"] = c.dropped_loss;
    d["marked"] = c.marked;
    d["depth_bytes"] = c.depth_bytes;
    d["max_depth_bytes"] = c.max_depth_bytes;
    d["duplicated"] = link.duplicated;
    d["corrupted"] = link.corrupted;
    d["reordered"] = link.reordered;
    d["dropped_down"] = link.dropped_down;
    return nb::typed<nb::dict, nb::str, std::uint64_t>(d);
}

nb::typed<nb::dict, nb::str, nb::any> status_dict(const NodeStatus& status) {
    nb::dict d;
    nb::dict tables = node_dict(status.node);
    tables["faces_opened"] = status.faces.opened;
    tables["faces_closed"] = status.faces.closed;
    tables["faces_refused"] = status.faces.refused;
    tables["faces_evicted"] = status.faces.evicted;
    tables["bad_framing"] = status.faces.bad_framing;
    tables["foreign_protocol"] = status.faces.foreign_protocol;
    tables["sent_malformed"] = status.faces.sent_malformed;
    d["node"] = tables;
    d["reducer"] = reducer_dict(status.reducer);
    d["endpoint"] = endpoint_dict(status.endpoint);
    d["management"] = management_dict(status.management);
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
    for (const std::string& operation : status.operations) {
        operations.append(NetworkText{operation});
    }
    d["operations"] = operations;
    d["last_unroutable"] = status.last_unroutable;
    d["pool_bytes_in_use"] = status.pool_bytes_in_use;
    d["pool_bytes_reserved"] = status.pool_bytes_reserved;
    return nb::typed<nb::dict, nb::str, nb::any>(d);
}

}  // namespace innet::bindings
