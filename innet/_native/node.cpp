// `Node`: a running node (its thread, tables, endpoint and links), as Python sees it.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <optional>
#include <string>
#include <unordered_map>

#include "innet/_native/bindings.hpp"
#include "innet/_native/name_argument.hpp"
#include "innet/_native/node_status.hpp"
#include "innet/_native/operations.hpp"
#include "innet/_native/signing.hpp"
#include "switch_emulator/driver/node_thread.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using driver::Engine;
using driver::NodeThread;
using nb::literals::operator""_a;

Duration from_seconds(double seconds) {
    // A year is for ever here; infinity would overflow the clock. What is no number counts as 0.
    constexpr double kLongest = 365.0 * 24 * 3600;
    const double bounded = std::fmin(std::fmax(seconds, 0.0), kLongest);
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(bounded));
}

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
    double target_queue_delay_s = 0.005;
};

forwarding::NodeOptions node_options(const NodeSettings& settings) {
    forwarding::NodeOptions options;
    options.own_name = name_from_uri(settings.own_name);
    options.cache_bytes = settings.cache_bytes;
    if (settings.cache_policy != "s3fifo" && settings.cache_policy != "lru") {
        throw nb::value_error("cache_policy must be 's3fifo' or 'lru'");
    }
    options.cache_policy = settings.cache_policy == "lru" ? forwarding::CachePolicy::kLru
                                                          : forwarding::CachePolicy::kS3Fifo;
    options.pit_capacity = settings.pit_capacity;
    options.seed = settings.seed;
    options.reducer.own_name = options.own_name;
    options.reducer.slots = settings.reduction_slots;
    options.reducer.interest_lifetime = from_seconds(settings.interest_lifetime_s);
    options.reducer.min_rto = from_seconds(settings.min_rto_s);
    options.reducer.max_rto = from_seconds(settings.max_rto_s);
    options.reducer.timeouts_before_self_evaluation = settings.timeouts_before_self_evaluation;
    return options;
}

EndpointOptions endpoint_options(const NodeSettings& settings) {
    EndpointOptions options;
    options.initial_window = settings.initial_window;
    options.max_window = settings.max_window;
    options.interest_lifetime = from_seconds(settings.interest_lifetime_s);
    options.min_rto = from_seconds(settings.min_rto_s);
    options.max_rto = from_seconds(settings.max_rto_s);
    options.timeouts_before_self_evaluation = settings.timeouts_before_self_evaluation;
    options.target_queue_delay = from_seconds(settings.target_queue_delay_s);
    return options;
}

using Ended = std::tuple<OperationId, int, std::string>;
using TimesInNs =
    std::tuple<OperationId, std::optional<std::int64_t>, std::optional<std::int64_t>, std::int64_t>;

std::optional<std::int64_t> in_ns(TimePoint time) {
    if (time == kNever) {
        return std::nullopt;
    }
    return time.time_since_epoch().count();
}

/// Keeps the Python owners of buffers alive while the packet path uses their memory.
class PythonNode {
  public:
    PythonNode(const NodeSettings& settings, const SigningKey& signing_key,
               const std::vector<SigningKey>& trusted_keys)
        : thread_(node_options(settings), endpoint_options(settings), make_keyring(trusted_keys),
                  make_signer(signing_key)) {}

    FaceId add_link(const driver::LinkOptions& options) {
        std::string error;
        const auto face = thread_.add_link(options, error);
        if (!face) {
            throw std::runtime_error(error);
        }
        return *face;
    }

    NodeThread& thread() { return thread_; }

    /// Runs on the node's thread, without the GIL; throws when the node is stopped.
    void call(const std::function<void(Engine&)>& function) {
        bool ran = false;
        {
            nb::gil_scoped_release release;
            ran = thread_.call(function);
        }
        require_running(ran);
    }

    OperationId submit(const Publication* publication, const std::vector<const Fetch*>& fetches,
                       double timeout_s, bool in_place, std::optional<StreamId> stream,
                       std::uint64_t seq, bool synchronising, std::uint32_t reserves) {
        OperationSpec spec;
        std::vector<nb::object> owners;
        if (publication != nullptr) {
            spec.publication = publication->spec;
            owners = publication->owners;
        }
        for (const Fetch* fetch : fetches) {
            spec.fetches.push_back(fetch->spec);
            owners.insert(owners.end(), fetch->owners.begin(), fetch->owners.end());
        }
        spec.in_place = in_place;
        release_discarded();
        const OperationId id = next_operation_++;
        const Duration timeout = from_seconds(timeout_s);
        owners_.emplace(id, std::move(owners));
        const bool queued = thread_.post([id, timeout, stream, seq, synchronising, reserves,
                                          spec = std::move(spec)](Engine& engine) mutable {
            spec.deadline = engine.now + timeout;
            if (stream) {
                engine.streams.submit(*stream, {id, seq, synchronising, std::move(spec), reserves},
                                      engine.now);
            } else {
                engine.endpoint.submit(id, std::move(spec), engine.now);
            }
        });
        if (!queued) {
            release_owners(id);
        }
        require_running(queued);
        return id;
    }

    OperationId publish_object(const wire::Name& name, ReadableBytes bytes, const SigningKey& key,
                               std::size_t max_packet_bytes) {
        auto signer = make_signer(key);
        const OperationId id = next_operation_++;
        const ObjectSpec spec{name, {bytes.data(), bytes.size()}, max_packet_bytes};
        call([&](Engine& engine) { engine.endpoint.publish_object(id, spec, std::move(signer)); });
        owners_[id].push_back(nb::cast(bytes));  // nobody can wait for it before this returns
        return id;
    }

    OperationId fetch_object(const wire::Name& name, const wire::Name& hint,
                             const wire::Name& signer, nb::handle_t<ObjectBuffer> into,
                             double timeout_s) {
        const OperationId id = next_operation_++;
        ObjectFetchSpec spec{name, hint, signer, nb::cast<const ObjectBuffer&>(into).memory, {}};
        call([&](Engine& engine) {
            spec.deadline = engine.now + from_seconds(timeout_s);
            engine.endpoint.fetch_object(id, std::move(spec), engine.now);
        });
        owners_[id].push_back(nb::borrow(into));
        return id;
    }

    std::optional<std::pair<int, std::string>> wait(OperationId id, double timeout_s) {
        std::optional<OperationCompletion> completion;
        {
            nb::gil_scoped_release release;
            completion = thread_.completions().wait(id, from_seconds(timeout_s));
        }
        if (!completion) {
            return std::nullopt;
        }
        release_owners(id);
        return std::pair(static_cast<int>(completion->status), std::move(completion->detail));
    }

    void discard(OperationId id) {
        thread_.completions().discard(id);
        release_discarded();
    }

    StreamId open_stream(std::vector<wire::Name> prefixes, std::uint32_t depth) {
        const StreamId stream = next_stream_++;
        call([&](Engine& engine) { engine.streams.open(stream, std::move(prefixes), depth); });
        return stream;
    }

    void release(StreamId stream, std::uint64_t seq) {
        thread_.post([=](Engine& engine) { engine.streams.release(stream, seq, engine.now); });
    }

    std::vector<Ended> collect() {
        std::vector<Ended> result;
        for (OperationCompletion& completion : thread_.completions().collect()) {
            release_owners(completion.id);
            result.emplace_back(completion.id, static_cast<int>(completion.status),
                                std::move(completion.detail));
        }
        return result;
    }

    std::vector<TimesInNs> take_operation_times() {
        std::vector<TimesInNs> result;
        for (const auto& [id, times] : thread_.completions().take_times()) {
            // What was refused at once has no times: nothing happened to it.
            if (times.ended != kNever) {
                result.emplace_back(id, in_ns(times.started), in_ns(times.first_segment),
                                    *in_ns(times.ended));
            }
        }
        return result;
    }

    void stop(const std::string& why) {
        nb::gil_scoped_release release;
        thread_.stop(why);
    }

  private:
    /// The end of a buffer may run Python code that comes back here: the map is whole by then.
    void release_owners(OperationId id) { const auto released = owners_.extract(id); }

    /// Discarded operations end on the node's thread, which must not touch Python.
    void release_discarded() {
        for (const OperationId id : thread_.completions().take_discarded()) release_owners(id);
    }

    static void require_running(bool running) {
        if (!running) {
            throw std::runtime_error("the node is not running");
        }
    }

    // Outlives the thread: what it may still write to stays alive until the thread has ended.
    std::unordered_map<OperationId, std::vector<nb::object>> owners_;
    NodeThread thread_;
    OperationId next_operation_ = 1;
    StreamId next_stream_ = 1;
};

driver::LinkOptions link_options(std::string local_address, std::uint16_t local_port,
                                 std::string peer_address, std::uint16_t peer_port, int fd,
                                 int receive_buffer_bytes, int send_buffer_bytes,
                                 const std::optional<port::PortOptions>& shape) {
    driver::LinkOptions options;
    options.endpoints = {std::move(local_address), local_port, std::move(peer_address), peer_port,
                         fd};
    options.receive_buffer_bytes = receive_buffer_bytes;
    options.send_buffer_bytes = send_buffer_bytes;
    options.shape = shape;
    return options;
}

void bind_shape(nb::module_& module) {
    nb::class_<port::PortOptions>(module, "PortShape", "What the emulator's own port model does.")
        .def(
            "__init__",
            [](port::PortOptions* self, std::optional<double> rate_bps, double delay_s, double loss,
               std::size_t queue_bytes, std::optional<std::size_t> mark_bytes, std::uint64_t seed) {
                port::PortOptions options;
                options.rate_bps = rate_bps;
                options.delay = from_seconds(delay_s);
                options.loss = loss;
                options.queue_bytes = queue_bytes;
                options.mark_bytes = mark_bytes;
                options.seed = seed;
                new (self) port::PortOptions(options);
            },
            nb::kw_only(), "rate_bps"_a.none(), "delay_s"_a, "loss"_a, "queue_bytes"_a,
            "mark_bytes"_a.none(), "seed"_a);
}

void bind_settings(nb::module_& module) {
    nb::class_<NodeSettings>(module, "NodeSettings", "Sizes and timers of a node.")
        .def(nb::init<>())
        .def_rw("own_name", &NodeSettings::own_name)
        .def_rw("seed", &NodeSettings::seed)
        .def_rw("reduction_slots", &NodeSettings::reduction_slots)
        .def_rw("cache_bytes", &NodeSettings::cache_bytes)
        .def_rw("cache_policy", &NodeSettings::cache_policy)
        .def_rw("pit_capacity", &NodeSettings::pit_capacity)
        .def_rw("interest_lifetime_s", &NodeSettings::interest_lifetime_s)
        .def_rw("min_rto_s", &NodeSettings::min_rto_s)
        .def_rw("max_rto_s", &NodeSettings::max_rto_s)
        .def_rw("timeouts_before_self_evaluation", &NodeSettings::timeouts_before_self_evaluation)
        .def_rw("initial_window", &NodeSettings::initial_window)
        .def_rw("max_window", &NodeSettings::max_window)
        .def_rw("target_queue_delay_s", &NodeSettings::target_queue_delay_s);
}

reduction::Rule make_rule(const std::string& group, const std::string& interval,
                          const std::vector<std::pair<std::string, std::string>>& operands,
                          bool primary) {
    reduction::Rule rule;
    rule.group = name_from_uri(group);
    rule.interval = name_from_uri("/" + interval);
    rule.primary = primary;
    for (const auto& [operand, hint] : operands) {
        rule.operands.push_back({name_from_uri("/" + operand), name_from_uri(hint)});
    }
    return rule;
}

void bind_control(nb::class_<PythonNode>& node) {
    node.def(
            "add_route",
            [](PythonNode& self, const std::string& prefix, FaceId face, std::uint32_t cost) {
                const wire::Name name = name_from_uri(prefix);
                self.call([&](Engine& engine) { engine.node.add_route(name, face, cost); });
            },
            "prefix"_a, "face"_a, "cost"_a = 0)
        .def(
            "install_rule",
            [](PythonNode& self, const std::string& group, const std::string& interval,
               const std::vector<std::pair<std::string, std::string>>& operands, bool primary) {
                const reduction::Rule rule = make_rule(group, interval, operands, primary);
                self.call([&](Engine& engine) { engine.node.reducer().install(rule); });
            },
            "group"_a, "interval"_a, "operands"_a, "primary"_a = true)
        .def(
            "remove_group",
            [](PythonNode& self, const std::string& group) {
                const wire::Name name = name_from_uri(group);
                self.call([&](Engine& engine) { engine.node.reducer().remove_group(name); });
            },
            "group"_a)
        .def("status", [](PythonNode& self) {
            NodeStatus status;
            self.call([&](Engine& engine) { status = read_status(engine, self.thread()); });
            return status_dict(status);
        });
}

void bind_operations_of(nb::class_<PythonNode>& node) {
    node.def(
            "register_producer",
            [](PythonNode& self, const std::string& prefix, const std::string& label) {
                const wire::Name name = name_from_uri(prefix);
                self.call([&](Engine& engine) { engine.endpoint.register_producer(name, label); });
            },
            "prefix"_a, "label"_a)
        .def(
            "unregister_producer",
            [](PythonNode& self, const std::string& prefix) {
                const wire::Name name = name_from_uri(prefix);
                self.call([&](Engine& engine) { engine.endpoint.unregister_producer(name); });
            },
            "prefix"_a)
        .def(
            "retire",
            [](PythonNode& self, const wire::Name& prefix, std::uint64_t seq) {
                self.thread().post(
                    [prefix, seq](Engine& engine) { engine.endpoint.retire(prefix, seq); });
            },
            "prefix"_a, "seq"_a)
        .def("submit", &PythonNode::submit, "publication"_a.none(), "fetches"_a, nb::kw_only(),
             "timeout_s"_a, "in_place"_a = false, "stream"_a = nb::none(), "seq"_a = 0,
             "synchronising"_a = false, "reserves"_a = 0)
        .def("release", &PythonNode::release, "stream"_a, "seq"_a,
             "Gives up a sequence number that an operation of the stream had reserved.")
        .def("open_stream", &PythonNode::open_stream, "prefixes"_a, "depth"_a)
        .def(
            "close_stream",
            [](PythonNode& self, StreamId stream) {
                self.thread().post([stream](Engine& engine) { engine.streams.close(stream); });
            },
            "stream"_a)
        .def("wait", &PythonNode::wait, "operation"_a, "timeout_s"_a)
        .def(
            "done",
            [](PythonNode& self, OperationId id) { return self.thread().completions().done(id); },
            "operation"_a)
        .def(
            "hand_to_collector",
            [](PythonNode& self, OperationId id) {
                self.thread().completions().hand_to_collector(id);
            },
            "operation"_a)
        .def("discard", &PythonNode::discard, "operation"_a,
             "Nobody will ask for the end of an operation that was not handed over.")
        .def("collect", &PythonNode::collect)
        .def_prop_ro("collector_fd",
                     [](PythonNode& self) { return self.thread().completions().event_fd(); })
        .def("keep_operation_times",
             [](PythonNode& self) { self.thread().completions().keep_times(); })
        .def("take_operation_times", &PythonNode::take_operation_times,
             "(operation, started, first segment, ended) in ns of the monotonic clock.")
        .def(
            "cancel",
            [](PythonNode& self, OperationId id) {
                self.thread().post([id](Engine& engine) { engine.streams.cancel(id, engine.now); });
            },
            "operation"_a)
        .def(
            "abort",
            [](PythonNode& self, const std::string& prefix, const std::string& why) {
                self.thread().post([name = name_from_uri(prefix), why](Engine& engine) {
                    engine.streams.abort(name, why, engine.now);
                });
            },
            "prefix"_a, "why"_a);
}

void bind_objects_of(nb::class_<PythonNode>& node) {
    node.def(
            "register_objects",
            [](PythonNode& self, const wire::Name& prefix, const std::string& label) {
                self.call([&](Engine& engine) { engine.endpoint.register_objects(prefix, label); });
            },
            "prefix"_a, "label"_a)
        .def(
            "unregister_objects",
            [](PythonNode& self, const wire::Name& prefix) {
                self.thread().post(
                    [prefix](Engine& engine) { engine.endpoint.unregister_objects(prefix); });
            },
            "prefix"_a)
        .def("publish_object", &PythonNode::publish_object, "name"_a, "data"_a, "key"_a,
             "max_packet_bytes"_a)
        .def("fetch_object", &PythonNode::fetch_object, "name"_a, "hint"_a, "signer"_a, "into"_a,
             "timeout_s"_a)
        .def(
            "withdraw_object",
            [](PythonNode& self, const wire::Name& name) {
                self.call([&](Engine& engine) { engine.endpoint.withdraw_object(name); });
            },
            "name"_a);
}

}  // namespace

void bind_node(nb::module_& module) {
    bind_shape(module);
    bind_settings(module);
    bind_signing(module);
    module.attr("STATUS_DONE") = static_cast<int>(OperationStatus::kDone);
    module.attr("STATUS_DEADLINE_EXCEEDED") = static_cast<int>(OperationStatus::kDeadlineExceeded);
    module.attr("STATUS_MISMATCH") = static_cast<int>(OperationStatus::kMismatch);
    module.attr("STATUS_OVERFLOW") = static_cast<int>(OperationStatus::kOverflow);
    module.attr("STATUS_ABORTED") = static_cast<int>(OperationStatus::kAborted);
    module.attr("STATUS_CANCELLED") = static_cast<int>(OperationStatus::kCancelled);
    module.attr("STATUS_NO_ROUTE") = static_cast<int>(OperationStatus::kNoRoute);
    module.attr("STATUS_UNTRUSTED") = static_cast<int>(OperationStatus::kUntrusted);
    nb::class_<PythonNode> node(module, "Node", "A node running on a thread of its own.");
    node.def(nb::init<const NodeSettings&, const SigningKey&, const std::vector<SigningKey>&>(),
             "settings"_a, "signing_key"_a, "trusted_keys"_a)
        .def(
            "add_link",
            [](PythonNode& self, std::string local_address, std::uint16_t local_port,
               std::string peer_address, std::uint16_t peer_port, int fd, int receive_buffer_bytes,
               int send_buffer_bytes, const std::optional<port::PortOptions>& shape) {
                return self.add_link(link_options(std::move(local_address), local_port,
                                                  std::move(peer_address), peer_port, fd,
                                                  receive_buffer_bytes, send_buffer_bytes, shape));
            },
            nb::kw_only(), "local_address"_a, "local_port"_a, "peer_address"_a, "peer_port"_a,
            "fd"_a = -1, "receive_buffer_bytes"_a = 4 << 20, "send_buffer_bytes"_a = 4 << 20,
            "shape"_a = nb::none())
        .def("start", [](PythonNode& self) { self.thread().start(); })
        .def("stop", &PythonNode::stop, "why"_a);
    bind_control(node);
    bind_operations_of(node);
    bind_objects_of(node);
}

}  // namespace innet::bindings
