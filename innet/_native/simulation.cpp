// `Simulation` and `SimulatedNode`: the simulator driver, as Python sees it.

#include "switch_emulator/simulation/simulation.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <tuple>

#include "innet/_native/bindings.hpp"
#include "innet/_native/network_text.hpp"
#include "innet/_native/node_handle.hpp"
#include "innet/_native/node_settings.hpp"
#include "innet/_native/node_status.hpp"
#include "innet/_native/shared_tables.hpp"
#include "innet/_native/signing.hpp"
#include "switch_emulator/simulation/capture/packet_capture.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using driver::Engine;
using nb::literals::operator""_a;
using simulation::LinkIndex;
using simulation::LinkOptions;
using simulation::NodeIndex;
using simulation::Simulation;
namespace capture = simulation::capture;
namespace stream = simulation::stream;

/// Node, operation, status and detail.
using EndedThere = std::tuple<NodeIndex, OperationId, int, NetworkText>;

class SimulatedNode final : public NodeHandle {
  public:
    SimulatedNode(Simulation& simulation, NodeIndex index)
        : simulation_(simulation), index_(index) {}

    void call(const std::function<void(Engine&)>& function) override {
        require_running(simulation_.call(index_, function));
    }

    bool post(std::function<void(Engine&)> function) override {
        return simulation_.call(index_, function);
    }

    std::vector<driver::LinkStatus> link_status() const override {
        return simulation_.link_status(index_);
    }

    void on_ended(OperationId id) { release_owners(id); }
    NodeIndex index() const { return index_; }

  private:
    Simulation& simulation_;
    NodeIndex index_;
};

simulation::NodeMakings makings(const NodeSettings& settings, const SigningKey& signing_key,
                                const std::vector<SigningKey>& trusted_keys) {
    return {node_options(settings), endpoint_options(settings), make_keyring(trusted_keys),
            make_signer(signing_key)};
}

class PythonSimulation {
  public:
    PythonSimulation(nb::callable route, nb::callable rule)
        : tables_(std::move(route), std::move(rule)), simulation_(&tables_) {}

    SimulatedNode& add_node(const NodeSettings& settings, const SigningKey& signing_key,
                            const std::vector<SigningKey>& trusted_keys) {
        const NodeIndex index = simulation_.add_node(makings(settings, signing_key, trusted_keys));
        handles_.push_back(std::make_unique<SimulatedNode>(simulation_, index));
        return *handles_.back();
    }

    std::tuple<LinkIndex, LinkIndex> connect(NodeIndex first, NodeIndex second,
                                             const LinkOptions& forth, const LinkOptions& back) {
        require_node(first);
        require_node(second);
        const simulation::Connection made = simulation_.connect(first, second, forth, back);
        return {made.forth, made.back};
    }

    int run(std::optional<std::int64_t> until_ns, std::uint64_t most_packets) {
        const Duration until = until_ns ? Duration(*until_ns) : Duration::max();
        nb::gil_scoped_release release;
        return static_cast<int>(simulation_.run(until, most_packets));
    }

    std::vector<EndedThere> take_ended() {
        std::vector<EndedThere> result;
        for (auto& [node, completion] : simulation_.take_ended()) {
            handles_[node]->on_ended(completion.id);
            result.emplace_back(node, completion.id, static_cast<int>(completion.status),
                                NetworkText{std::move(completion.detail)});
        }
        return result;
    }

    std::vector<std::uint64_t> take_arrived() { return simulation_.streams().take_arrived(); }

    void collect(NodeIndex node) {
        require_node(node);
        simulation_.collect(node);
    }

    void crash(NodeIndex node, const std::string& why) {
        require_node(node);
        simulation_.crash(node, why);
    }

    void restart(NodeIndex node, const NodeSettings& settings, const SigningKey& signing_key,
                 const std::vector<SigningKey>& trusted_keys) {
        require_node(node);
        if (simulation_.is_alive(node)) {
            throw nb::value_error("the node has not crashed");
        }
        simulation_.restart(node, makings(settings, signing_key, trusted_keys));
    }

    stream::StreamId open_stream(std::vector<LinkIndex> forth, std::vector<LinkIndex> back,
                                 const stream::SenderOptions& options) {
        for (const auto& path : {forth, back}) {
            if (path.empty()) {
                throw nb::value_error("a stream needs links in both directions");
            }
            for (const LinkIndex link : path) {
                at_link(link);
            }
        }
        return simulation_.streams().add(options, {std::move(forth), std::move(back)});
    }

    stream::StreamTable& at_stream(stream::StreamId stream) {
        if (stream >= simulation_.streams().size()) {
            throw nb::index_error("there is no such stream");
        }
        return simulation_.streams();
    }

    /// `links`: the interface name of each direction to capture.
    std::uint32_t start_capture(int descriptor, const std::map<LinkIndex, std::string>& links) {
        std::vector<capture::CapturedLink> all;
        for (LinkIndex link = 0; link < simulation_.links(); ++link) {
            const auto named = links.find(link);
            const bool captured = named != links.end();
            all.push_back({captured ? named->second : "", simulation_.source_of(link),
                           simulation_.target_of(link), captured});
        }
        auto started = std::make_unique<capture::PacketCapture>(descriptor, std::move(all),
                                                                simulation_.streams());
        if (!started->good()) {
            throw std::runtime_error("the file could not be written");
        }
        simulation_.observe(*started);
        captures_.push_back(std::move(started));
        return static_cast<std::uint32_t>(captures_.size() - 1);
    }

    /// Whether all of it could be written.
    bool stop_capture(std::uint32_t number) {
        if (number >= captures_.size() || !captures_[number]) {
            throw nb::index_error("there is no such capture");
        }
        auto stopped = std::move(captures_[number]);
        simulation_.forget(*stopped);
        stopped->flush();
        return stopped->good();
    }

    Simulation& at(NodeIndex node) {
        require_node(node);
        return simulation_;
    }

    Simulation& at_link(LinkIndex link) {
        if (link >= simulation_.links()) {
            throw nb::index_error("there is no such link");
        }
        return simulation_;
    }

    void set_audit_interval(std::uint32_t interval) { simulation_.set_audit_interval(interval); }

    const Simulation& simulation() const { return simulation_; }

  private:
    void require_node(NodeIndex node) const {
        if (node >= handles_.size()) {
            throw nb::index_error("there is no such node");
        }
    }

    PythonTables tables_;
    std::vector<std::unique_ptr<capture::PacketCapture>> captures_;
    // Destroyed after the simulation: the handles own memory that the nodes may still write to.
    std::vector<std::unique_ptr<SimulatedNode>> handles_;
    Simulation simulation_;
};

nb::typed<nb::dict, nb::str, std::uint64_t> counters_dict(const Simulation& simulation) {
    const simulation::SimulationCounters& counters = simulation.counters();
    nb::dict d;
    d["packets"] = counters.packets;
    d["rounds"] = counters.rounds;
    d["dropped_dead"] = counters.dropped_dead;
    d["dropped_paused"] = counters.dropped_paused;
    d["digest"] = counters.digest;
    d["pool_bytes_reserved"] = simulation.pool_bytes_reserved();
    return nb::typed<nb::dict, nb::str, std::uint64_t>(d);
}

/// (queued bytes, packets dropped by a full queue) of each direction of a link.
std::vector<std::tuple<std::uint64_t, std::uint64_t>> queues(const Simulation& simulation) {
    std::vector<std::tuple<std::uint64_t, std::uint64_t>> result;
    result.reserve(simulation.links());
    for (LinkIndex link = 0; link < simulation.links(); ++link) {
        const port::PortCounters port = simulation.link_counters(link).port;
        result.emplace_back(port.depth_bytes, port.dropped_queue);
    }
    return result;
}

void bind_link_shape(nb::module_& module) {
    nb::class_<LinkOptions>(module, "LinkShape", "What one direction of a simulated link does.")
        .def(
            "__init__",
            [](LinkOptions* self, const port::PortOptions& port, double jitter_s, double reorder,
               double reorder_delay_s, double duplicate, double corrupt) {
                new (self) LinkOptions{port,      from_seconds(jitter_s),
                                       reorder,   from_seconds(reorder_delay_s),
                                       duplicate, corrupt};
            },
            "port"_a, nb::kw_only(), "jitter_s"_a = 0.0, "reorder"_a = 0.0,
            "reorder_delay_s"_a = 0.0, "duplicate"_a = 0.0, "corrupt"_a = 0.0);
}

nb::typed<nb::dict, nb::str, double> stream_status(const stream::StreamTable& streams,
                                                   stream::StreamId id) {
    const stream::Sender& sender = streams.sender(id);
    nb::dict d;
    d["written_bytes"] = sender.written();
    d["acknowledged_bytes"] = sender.acknowledged();
    d["arrived_bytes"] = streams.receiver(id).arrived();
    d["window_bytes"] = sender.window_bytes();
    d["segments"] = sender.counters().segments;
    d["retransmissions"] = sender.counters().retransmissions;
    d["timeouts"] = sender.counters().timeouts;
    return nb::typed<nb::dict, nb::str, double>(d);
}

stream::WindowGrowth window_growth(const std::string& name) {
    if (name != "reno" && name != "cubic") {
        throw nb::value_error("a stream's congestion control must be 'cubic' or 'reno'");
    }
    return name == "reno" ? stream::WindowGrowth::kReno : stream::WindowGrowth::kCubic;
}

void bind_streams(nb::class_<PythonSimulation>& simulation) {
    simulation
        .def(
            "open_stream",
            [](PythonSimulation& self, std::vector<LinkIndex> forth, std::vector<LinkIndex> back,
               std::uint32_t segment_bytes, const std::string& congestion,
               std::uint64_t max_window_bytes, double min_rto_s, double max_processing_s,
               std::uint64_t seed) {
                stream::SenderOptions options;
                options.segment_bytes = segment_bytes;
                options.growth = window_growth(congestion);
                options.max_window_bytes = max_window_bytes;
                options.min_rto = from_seconds(min_rto_s);
                options.max_processing = from_seconds(max_processing_s);
                options.seed = seed;
                return self.open_stream(std::move(forth), std::move(back), options);
            },
            "forth"_a, "back"_a, nb::kw_only(), "segment_bytes"_a, "congestion"_a,
            "max_window_bytes"_a, "min_rto_s"_a, "max_processing_s"_a, "seed"_a,
            "A stream of bytes along the links `forth`, acknowledged along `back`.")
        .def(
            "write_stream",
            [](PythonSimulation& self, stream::StreamId stream, std::uint64_t bytes) {
                self.at_stream(stream).write(stream, bytes, self.simulation().stream_time());
            },
            "stream"_a, "bytes"_a)
        .def(
            "watch_stream",
            [](PythonSimulation& self, stream::StreamId stream, std::uint64_t bytes,
               std::uint64_t token) { self.at_stream(stream).watch(stream, bytes, token); },
            "stream"_a, "bytes"_a, "token"_a,
            "`take_arrived` returns `token` once the stream's first `bytes` have arrived.")
        .def("take_arrived", &PythonSimulation::take_arrived)
        .def(
            "stream_status",
            [](PythonSimulation& self, stream::StreamId stream) {
                return stream_status(self.at_stream(stream), stream);
            },
            "stream"_a);
}

void bind_faults(nb::class_<PythonSimulation>& simulation) {
    simulation
        .def("crash", &PythonSimulation::crash, "node"_a, "why"_a,
             "The node loses everything; its operations end as aborted because of `why`.")
        .def("restart", &PythonSimulation::restart, "node"_a, "settings"_a, "signing_key"_a,
             "trusted_keys"_a)
        .def(
            "is_alive",
            [](PythonSimulation& self, NodeIndex node) { return self.at(node).is_alive(node); },
            "node"_a)
        .def(
            "pause", [](PythonSimulation& self, NodeIndex node) { self.at(node).pause(node); },
            "node"_a)
        .def(
            "resume", [](PythonSimulation& self, NodeIndex node) { self.at(node).resume(node); },
            "node"_a)
        .def(
            "advance_clock",
            [](PythonSimulation& self, NodeIndex node, double by_s) {
                self.at(node).advance_clock(node, from_seconds(by_s));
            },
            "node"_a, "by_s"_a, "The node's clock jumps ahead.")
        .def(
            "set_link_up",
            [](PythonSimulation& self, LinkIndex link, bool up) {
                self.at_link(link).set_link_up(link, up);
            },
            "link"_a, "up"_a)
        .def(
            "change_link",
            [](PythonSimulation& self, LinkIndex link, const LinkOptions& shape) {
                self.at_link(link).change_link(link, shape);
            },
            "link"_a, "shape"_a);
}

}  // namespace

void bind_simulation(nb::module_& module) {
    bind_link_shape(module);
    module.attr("STOP_ENDED") = static_cast<int>(simulation::Stop::kEnded);
    module.attr("STOP_TIME") = static_cast<int>(simulation::Stop::kTime);
    module.attr("STOP_SLICE") = static_cast<int>(simulation::Stop::kSlice);
    module.attr("STOP_STUCK") = static_cast<int>(simulation::Stop::kStuck);
    module.attr("STOP_UNSOUND") = static_cast<int>(simulation::Stop::kUnsound);
    nb::class_<SimulatedNode, NodeHandle>(module, "SimulatedNode", "A node of a simulation.")
        .def_prop_ro("index", &SimulatedNode::index);
    nb::class_<PythonSimulation> simulation(module, "Simulation",
                                            "Nodes and links under a virtual clock.");
    simulation
        .def(nb::init<nb::callable, nb::callable>(), "route"_a, "rule"_a,
             nb::sig("def __init__(self, "
                     "route: collections.abc.Callable[[int, str], tuple[str, int] | None], "
                     "rule: collections.abc.Callable[[int, str, str], "
                     "list[tuple[str, str]] | None]) -> None"),
             "`route(node, name)` says (prefix, face), `rule(node, group, interval)` the operands "
             "[(interval, hint), ...] by which a node evaluates an interval itself; or None. Both "
             "are called once for each entry that a node lacks.")
        .def("add_node", &PythonSimulation::add_node, "settings"_a, "signing_key"_a,
             "trusted_keys"_a, nb::rv_policy::reference_internal)
        .def("connect", &PythonSimulation::connect, "first"_a, "second"_a, "forth"_a, "back"_a,
             "Adds a link, and a face to each of the two nodes; its two directions.")
        .def_prop_ro("now_ns",
                     [](const PythonSimulation& self) { return self.simulation().now().count(); })
        .def("run", &PythonSimulation::run, "until_ns"_a.none(), "most_packets"_a,
             "Lets time pass; why it stopped: one of STOP_*.")
        .def("start_capture", &PythonSimulation::start_capture, "descriptor"_a, "links"_a,
             "Writes what crosses the links into a pcapng file, which it closes; the capture's "
             "number.")
        .def("stop_capture", &PythonSimulation::stop_capture, "capture"_a,
             "Whether all of it could be written.")
        .def("take_ended", &PythonSimulation::take_ended,
             "(node, operation, status, detail) of what ended since the last call.")
        .def("collect", &PythonSimulation::collect, "node"_a,
             "Ends what needs nothing but the node itself, such as a publication.")
        .def("set_audit_interval", &PythonSimulation::set_audit_interval, "interval"_a,
             "Looks through a node's tables after every so many events there; 0: never.")
        .def_prop_ro(
            "complaint",
            [](const PythonSimulation& self) { return NetworkText{self.simulation().complaint()}; })
        .def("counters",
             [](const PythonSimulation& self) { return counters_dict(self.simulation()); })
        .def(
            "link_counters",
            [](PythonSimulation& self, LinkIndex link) {
                return link_counters_dict(self.at_link(link).link_counters(link));
            },
            "link"_a)
        .def(
            "queues", [](const PythonSimulation& self) { return queues(self.simulation()); },
            "(bytes waiting, packets dropped) of each direction of a link.");
    bind_faults(simulation);
    bind_streams(simulation);
}

}  // namespace innet::bindings
