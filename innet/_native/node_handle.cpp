#include "innet/_native/node_handle.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "innet/_native/bindings.hpp"
#include "innet/_native/byte_arguments.hpp"
#include "innet/_native/keeping.hpp"
#include "innet/_native/name_argument.hpp"
#include "innet/_native/node_settings.hpp"
#include "transport/wire/text.hpp"

namespace nb = nanobind;

namespace innet::bindings {

using driver::Engine;
using nb::literals::operator""_a;

void require_label(const std::string& label) {
    if (wire::is_label({reinterpret_cast<const std::uint8_t*>(label.data()), label.size()})) return;
    throw nb::value_error(("invalid label '" + label + "': expected 1 to " +
                           std::to_string(wire::kMaxLabelSize) +
                           " printable ASCII characters, such as a rank or a node's name")
                              .c_str());
}

OperationId NodeHandle::submit(const OwnedPublication* publication,
                               const std::vector<const OwnedFetch*>& fetches, const Call& how) {
    OperationSpec spec;
    std::vector<nb::object> owners;
    if (publication != nullptr) {
        spec.publication = publication->spec;
        owners = publication->owners;
    }
    for (const OwnedFetch* fetch : fetches) {
        spec.fetches.push_back(fetch->spec);
        owners.insert(owners.end(), fetch->owners.begin(), fetch->owners.end());
    }
    spec.in_place = how.in_place;
    return submit(std::move(spec), std::move(owners), how);
}

OperationId NodeHandle::submit(OperationSpec spec, std::vector<nb::object> owners, Call how) {
    release_discarded();
    const OperationId id = next_operation_++;
    const Duration timeout = from_seconds(how.timeout_s);
    owners_.emplace(id, std::move(owners));
    const bool deferred = how.deferred;
    auto begun = [id, timeout, how = std::move(how),
                  spec = std::move(spec)](Engine& engine) mutable {
        spec.deadline = engine.now + timeout;
        if (how.stream) {
            engine.streams.submit(*how.stream,
                                  {.id = id,
                                   .seq = how.seq,
                                   .synchronising = how.synchronising,
                                   .spec = std::move(spec),
                                   .reserves = how.reserves,
                                   .call = std::move(how.call)},
                                  engine.now);
        } else {
            engine.endpoint.submit(id, std::move(spec), engine.now);
        }
    };
    const bool queued = deferred ? post_deferred(std::move(begun)) : post(std::move(begun));
    if (!queued) {
        release_owners(id);
    }
    require_running(queued);
    return id;
}

std::shared_ptr<security::Signer> NodeHandle::object_signer(const SigningKey& key) {
    const auto known =
        std::ranges::find(object_signers_, key, &decltype(object_signers_)::value_type::first);
    if (known != object_signers_.end()) return known->second;
    return object_signers_.emplace_back(key, make_signer(key)).second;
}

OperationId NodeHandle::begin(std::vector<nb::object> owners,
                              std::function<void(Engine&, OperationId)> function, bool deferred) {
    release_discarded();
    release_returned();
    const OperationId id = next_operation_++;
    owners_.emplace(id, std::move(owners));
    auto begun = [id, function = std::move(function)](Engine& engine) { function(engine, id); };
    const bool queued = deferred ? post_deferred(std::move(begun)) : post(std::move(begun));
    if (!queued) release_owners(id);
    require_running(queued);
    return id;
}

std::vector<RequestedObject> NodeHandle::take_requested_objects() {
    std::vector<RequestedObject> requested;
    call([&](Engine& engine) { requested = engine.endpoint.take_requested_objects(); });
    return requested;
}

void NodeHandle::post_or_throw(std::function<void(Engine&)> function) {
    require_running(post(std::move(function)));
}

void NodeHandle::post_deferred_or_throw(std::function<void(Engine&)> function) {
    require_running(post_deferred(std::move(function)));
}

StreamId NodeHandle::open_stream(std::vector<wire::Name> prefixes, std::uint32_t depth) {
    const StreamId stream = next_stream_++;
    call([&](Engine& engine) { engine.streams.open(stream, std::move(prefixes), depth); });
    return stream;
}

void NodeHandle::require_running(bool running) {
    if (!running) {
        throw std::runtime_error("the node is not running");
    }
}

namespace {

reduction::Rule make_rule(const std::string& group, const std::string& interval,
                          const std::vector<std::pair<std::string, std::string>>& operands,
                          bool primary, const std::vector<std::string>& ahead_to) {
    reduction::Rule rule;
    rule.group = name_from_uri(group);
    rule.interval = name_from_uri("/" + interval);
    rule.primary = primary;
    for (const std::string& place : ahead_to) {
        rule.ahead_to.push_back(place.empty() ? wire::Name() : name_from_uri(place));
    }
    for (const auto& [operand, hint] : operands) {
        rule.operands.push_back({name_from_uri("/" + operand), name_from_uri(hint)});
    }
    return rule;
}

void bind_control(nb::class_<NodeHandle>& node) {
    node.def(
            "add_route",
            [](NodeHandle& self, const std::string& prefix, FaceId face, std::uint32_t cost) {
                const wire::Name name = name_from_uri(prefix);
                self.call([&](Engine& engine) { engine.node.add_route(name, face, cost); });
            },
            "prefix"_a, "face"_a, "cost"_a = 0)
        .def(
            "remove_route",
            [](NodeHandle& self, const std::string& prefix, FaceId face) {
                const wire::Name name = name_from_uri(prefix);
                self.call([&](Engine& engine) { engine.node.remove_route(name, face); });
            },
            "prefix"_a, "face"_a)
        .def(
            "silent_faces",
            [](NodeHandle& self) {
                std::vector<FaceId> silent;
                self.call([&](Engine& engine) {
                    for (FaceId face = 0; face < engine.node.faces(); ++face) {
                        if (engine.node.is_silent(face)) silent.push_back(face);
                    }
                });
                return silent;
            },
            "The faces through which nothing gets to their neighbours, or back.")
        .def(
            "install_rule",
            [](NodeHandle& self, const std::string& group, const std::string& interval,
               const std::vector<std::pair<std::string, std::string>>& operands, bool primary,
               const std::vector<std::string>& ahead_to) {
                const reduction::Rule rule =
                    make_rule(group, interval, operands, primary, ahead_to);
                self.call([&](Engine& engine) { engine.node.reducer().install(rule); });
            },
            "group"_a, "interval"_a, "operands"_a, "primary"_a = true, "ahead_to"_a = nb::list(),
            "ahead_to: by shard, the name of the node that gets the sum unrequested when all "
            "operands came unrequested; empty: none.")
        .def(
            "drop_cache",
            [](NodeHandle& self) {
                std::size_t dropped = 0;
                self.call([&](Engine& engine) { dropped = engine.node.drop_cache(); });
                return dropped;
            },
            "Empties the content store; how many entries that were.")
        .def(
            "status",
            [](NodeHandle& self, bool with_rules) {
                NodeStatus status;
                self.call([&](Engine& engine) {
                    status = read_status(engine, self.link_status(), with_rules);
                    self.read_foreign_faces(status);
                });
                return status_dict(status);
            },
            nb::kw_only(), "with_rules"_a = true);
}

wire::TensorErrorCode error_code(int status) {
    switch (static_cast<OperationStatus>(status)) {
        case OperationStatus::kMismatch:
            return wire::TensorErrorCode::kMismatch;
        case OperationStatus::kOverflow:
            return wire::TensorErrorCode::kOverflow;
        case OperationStatus::kAborted:
            return wire::TensorErrorCode::kAborted;
        default:
            return wire::TensorErrorCode::kFailed;
    }
}

void bind_failures_of(nb::class_<NodeHandle>& node) {
    node.def(
            "fail",
            [](NodeHandle& self, StreamId stream, std::uint64_t first, std::uint64_t end,
               int status, const std::string& why) {
                self.post([=](Engine& engine) {
                    for (std::uint64_t seq = first; seq < end; ++seq) {
                        engine.streams.fail(stream, {{}, {}, seq, error_code(status), why},
                                            engine.now);
                    }
                });
            },
            "stream"_a, "first"_a, "end"_a, "status"_a, "why"_a,
            "The calls with these sequence numbers failed before they contributed: ranks that "
            "need the contributions end with this status and `why`. Sequence numbers in use are "
            "skipped.")
        .def(
            "fail_message",
            [](NodeHandle& self, const wire::Name& prefix, const wire::Name& suffix,
               std::uint64_t seq, int status, const std::string& why) {
                self.post([=](Engine& engine) {
                    engine.endpoint.fail({{prefix}, suffix, seq, error_code(status), why});
                });
            },
            "prefix"_a, "suffix"_a, "seq"_a, "status"_a, "why"_a,
            "The same of a message under `<prefix>/<any type><suffix>`.");
}

void serve_packets(NodeHandle& self, const std::vector<nb::bytes>& packets) {
    std::vector<std::vector<std::uint8_t>> copies;
    for (const nb::bytes& packet : packets) {
        const wire::ByteView bytes = view_of(packet);
        copies.emplace_back(bytes.begin(), bytes.end());
    }
    bool taken = false;
    self.call([&](Engine& engine) {
        std::vector<PacketRef> pooled;
        for (const auto& copy : copies) pooled.push_back(engine.pool.copy_of(copy));
        taken = engine.endpoint.serve_packets(std::move(pooled));
    });
    if (!taken) throw nb::value_error("one of the packets to serve is no Data packet");
}

void bind_operations_of(nb::class_<NodeHandle>& node) {
    node.def(
            "register_producer",
            [](NodeHandle& self, const std::string& prefix, const std::string& label) {
                const wire::Name name = name_from_uri(prefix);
                require_label(label);
                self.call([&](Engine& engine) { engine.endpoint.register_producer(name, label); });
            },
            "prefix"_a, "label"_a)
        .def(
            "unregister_producer",
            [](NodeHandle& self, const std::string& prefix) {
                const wire::Name name = name_from_uri(prefix);
                self.call([&](Engine& engine) { engine.endpoint.unregister_producer(name); });
            },
            "prefix"_a)
        .def("serve_packets", &serve_packets, "packets"_a,
             "Serves these Data packets, such as certificates, in place of the previous ones. "
             "Raises ValueError when one is not a Data packet.")
        .def(
            "end_producer",
            [](NodeHandle& self, const wire::Name& prefix, std::optional<std::uint64_t> seq,
               const std::string& why) {
                self.post([prefix, seq, why](Engine& engine) {
                    engine.endpoint.end_producer(prefix, seq, why);
                });
            },
            "prefix"_a, "seq"_a.none(), "why"_a,
            "Answers pending and later Interests for collectives from `seq` on with the error "
            "`why`; with `None`, for all that has not been published.")
        .def(
            "retire",
            [](NodeHandle& self, const wire::Name& prefix, std::uint64_t seq) {
                self.post([prefix, seq](Engine& engine) { engine.endpoint.retire(prefix, seq); });
            },
            "prefix"_a, "seq"_a)
        .def(
            "submit",
            [](NodeHandle& self, const OwnedPublication* publication,
               const std::vector<const OwnedFetch*>& fetches, double timeout_s, bool in_place,
               std::optional<StreamId> stream, std::uint64_t seq, bool synchronising,
               std::uint32_t reserves, std::string call) {
                return self.submit(
                    publication, fetches,
                    {timeout_s, in_place, stream, seq, synchronising, reserves, std::move(call)});
            },
            "publication"_a.none(), "fetches"_a, nb::kw_only(), "timeout_s"_a, "in_place"_a = false,
            "stream"_a = nb::none(), "seq"_a = 0, "synchronising"_a = false, "reserves"_a = 0,
            "call"_a = "")
        .def(
            "release",
            [](NodeHandle& self, StreamId stream, std::uint64_t seq) {
                self.post([=](Engine& engine) { engine.streams.release(stream, seq, engine.now); });
            },
            "stream"_a, "seq"_a,
            "Gives up a sequence number that an operation of the stream had reserved.")
        .def("open_stream", &NodeHandle::open_stream, "prefixes"_a, "depth"_a)
        .def(
            "close_stream",
            [](NodeHandle& self, StreamId stream) {
                self.post([stream](Engine& engine) { engine.streams.close(stream); });
            },
            "stream"_a)
        .def(
            "cancel",
            [](NodeHandle& self, OperationId id) {
                self.post([id](Engine& engine) { engine.streams.cancel(id, engine.now); });
            },
            "operation"_a)
        .def(
            "abort",
            [](NodeHandle& self, const std::string& prefix, const std::string& why) {
                self.post([name = name_from_uri(prefix), why](Engine& engine) {
                    engine.streams.abort(name, why, engine.now);
                });
            },
            "prefix"_a, "why"_a);
}

}  // namespace

void bind_node_handle(nb::module_& module) {
    nb::class_<NodeHandle> node(module, "NodeHandle",
                                "A node, driven by a thread or a simulation.");
    bind_control(node);
    bind_jobs_of(node);
    bind_strategies_of(module, node);
    bind_management_of(node);
    bind_operations_of(node);
    bind_failures_of(node);
    bind_objects_of(node);
    bind_kept_object(module);
    bind_keeping_of(node);
}

}  // namespace innet::bindings
