// `Node`: a running node (its thread, tables, endpoint and links), as Python sees it.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "innet/_native/bindings.hpp"
#include "innet/_native/network_text.hpp"
#include "innet/_native/node_handle.hpp"
#include "innet/_native/node_settings.hpp"
#include "innet/_native/node_status.hpp"
#include "innet/_native/signing.hpp"
#include "switch_emulator/driver/node_thread.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using driver::Engine;
using driver::NodeThread;
using nb::literals::operator""_a;

using Ended = std::tuple<OperationId, int, NetworkText>;
using TimesInNs =
    std::tuple<OperationId, std::optional<std::int64_t>, std::optional<std::int64_t>, std::int64_t>;

std::optional<std::int64_t> in_ns(TimePoint time) {
    if (time == kNever) {
        return std::nullopt;
    }
    return time.time_since_epoch().count();
}

/// A thread that waits looks for signals so often.
constexpr double kSignalInterval_s = 0.1;

/// Operations on tensors of at most this much end so soon that waking the node's thread up for them
/// takes most of their time: who waits for them runs the node.
constexpr std::size_t kShortTensor_bytes = 64 << 10;

/// More than a node takes to cancel an operation.
constexpr double kCancelLimit_s = 1.0;

/// The memory of an object of Python. The object must outlive it, and keep its memory.
class BufferView {
  public:
    BufferView(nb::handle object, int flags) {
        if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) nb::raise_python_error();
    }
    ~BufferView() { PyBuffer_Release(&view_); }
    BufferView(const BufferView&) = delete;
    BufferView& operator=(const BufferView&) = delete;

    std::span<std::uint8_t> bytes() const {
        return {static_cast<std::uint8_t*>(view_.buf), static_cast<std::size_t>(view_.len)};
    }

  private:
    Py_buffer view_{};
};

class PythonNode final : public NodeHandle {
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

    FaceId add_shared_memory_link(unsigned end, int memory_fd, int own_event_fd, int peer_event_fd,
                                  const std::optional<simulation::LinkOptions>& shape,
                                  bool trusted) {
        std::string error;
        const auto face = thread_.add_shared_memory_link(
            {end, memory_fd, own_event_fd, peer_event_fd}, shape, trusted, error);
        if (!face) throw std::runtime_error(error);
        return *face;
    }

    void add_tap(const std::string& path, std::vector<FaceId> faces) {
        std::string error;
        auto tap = driver::PacketTap::connect(path, std::move(faces), error);
        if (!tap) {
            throw std::runtime_error(error);
        }
        call([&](Engine&) { thread_.add_tap(std::move(*tap)); });
    }

    NodeThread& thread() { return thread_; }

    /// Runs on the node's thread, without the GIL; throws when the node is stopped.
    void call(const std::function<void(Engine&)>& function) override {
        bool ran = false;
        {
            nb::gil_scoped_release release;
            ran = thread_.call(function);
        }
        require_running(ran);
    }

    bool post(std::function<void(Engine&)> function) override {
        return thread_.post(std::move(function));
    }

    bool post_deferred(std::function<void(Engine&)> function) override {
        return thread_.post_deferred(std::move(function));
    }

    /// The node's thread may be busy for long: this does not wait for it.
    std::vector<RequestedObject> take_requested_objects() override {
        return thread_.take_requested_objects();
    }

    std::vector<driver::LinkStatus> link_status() const override { return thread_.link_status(); }

    void read_foreign_faces(NodeStatus& status) override {
        status.faces = thread_.face_counters();
        status.listeners = thread_.face_factory().channels();
    }

    std::string listen(const driver::ListenerOptions& options) {
        std::optional<std::string> uri;
        std::string error;
        const bool ran = thread_.call([&](Engine&) { uri = thread_.listen(options, error); });
        if (!ran) uri = thread_.listen(options, error);  // not started yet
        if (!uri) throw std::runtime_error(error);
        return *uri;
    }

    std::optional<std::pair<int, NetworkText>> wait(OperationId id, double timeout_s) {
        std::optional<OperationCompletion> completion;
        {
            nb::gil_scoped_release release;
            completion = thread_.completions().wait(id, from_seconds(timeout_s));
        }
        return taken(id, std::move(completion));
    }

    /// The end of an operation that was submitted deferred; nothing when signals are due.
    std::optional<std::pair<int, NetworkText>> wait_for(OperationId id) {
        std::optional<OperationCompletion> completion;
        {
            nb::gil_scoped_release release;
            completion = thread_.wait_for(id, from_seconds(kSignalInterval_s));
        }
        return taken(id, std::move(completion));
    }

    /// Starts the operation and waits for its end: its status and detail. An exception of a signal
    /// handler cancels the operation, which then uses the arrays no more.
    std::pair<int, NetworkText> run(const RepeatedOperation& operation, nb::handle publishes,
                                    nb::handle into, std::uint64_t seq, double timeout_s) {
        const BufferView tensor(publishes, PyBUF_C_CONTIGUOUS);
        const BufferView result(into, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
        std::vector<nb::object> owners = operation.owners;
        owners.push_back(nb::borrow(publishes));
        owners.push_back(nb::borrow(into));
        const bool is_short = tensor.bytes().size() <= kShortTensor_bytes;
        const OperationId id =
            submit(operation.numbered(seq, tensor.bytes(), result.bytes()), std::move(owners),
                   {.timeout_s = timeout_s,
                    .stream = operation.stream,
                    .seq = seq,
                    .synchronising = true,
                    .call = operation.call,
                    .deferred = is_short});
        const auto wait_on = [&] { return is_short ? wait_for(id) : wait(id, kSignalInterval_s); };
        auto ended = wait_on();
        while (!ended) {
            if (PyErr_CheckSignals() != 0) {
                nb::python_error raised;
                post([id](Engine& engine) { engine.streams.cancel(id, engine.now); });
                if (!wait(id, kCancelLimit_s)) discard(id);
                throw raised;
            }
            ended = wait_on();
        }
        return *std::move(ended);
    }

    void discard(OperationId id) {
        thread_.completions().discard(id);
        release_discarded();
    }

    std::vector<Ended> take(driver::CompletionQueue& queue) {
        std::vector<Ended> result;
        for (OperationCompletion& completion : queue.take()) {
            release_owners(completion.id);
            result.emplace_back(completion.id, static_cast<int>(completion.status),
                                NetworkText{std::move(completion.detail)});
        }
        release_returned();
        return result;
    }

    std::vector<TimesInNs> take_operation_times() {
        std::vector<TimesInNs> result;
        for (const auto& [id, times] : thread_.completions().take_times()) {
            // An operation that was refused at once has no times.
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
    std::optional<std::pair<int, NetworkText>> taken(
        OperationId id, std::optional<OperationCompletion> completion) {
        if (!completion) return std::nullopt;
        release_owners(id);
        return std::pair(static_cast<int>(completion->status),
                         NetworkText{std::move(completion->detail)});
    }

    /// Discarded operations end on the node's thread, which must not touch Python.
    void release_discarded() override {
        for (const OperationId id : thread_.completions().take_discarded()) release_owners(id);
    }

    NodeThread thread_;
};

/// A completion queue of a node, which outlives it.
class PythonQueue {
  public:
    explicit PythonQueue(PythonNode& node) : node_(node) {}
    PythonQueue(const PythonQueue&) = delete;
    PythonQueue& operator=(const PythonQueue&) = delete;
    ~PythonQueue() { take(); }

    void add(OperationId id) { node_.thread().completions().hand_over(id, queue_); }
    void add_batched(OperationId id) { node_.thread().completions().hand_over_batched(id, queue_); }
    void flush(OperationId id) {
        node_.thread().completions().flush(id, *queue_);
        node_.thread().wake_up();
    }
    std::vector<Ended> take() { return node_.take(*queue_); }
    int fd() const { return queue_->event_fd(); }

  private:
    PythonNode& node_;
    std::shared_ptr<driver::CompletionQueue> queue_ = std::make_shared<driver::CompletionQueue>();
};

void bind_shape(nb::module_& module) {
    nb::class_<port::PortOptions>(module, "PortShape", "What the emulator's own port model does.")
        .def(
            "__init__",
            [](port::PortOptions* self, std::optional<double> rate_bps, double delay_s, double loss,
               std::size_t queue_bytes, std::optional<std::size_t> mark_bytes, std::uint64_t seed,
               std::size_t burst_bytes) {
                port::PortOptions options;
                options.rate_bps = rate_bps;
                options.delay = from_seconds(delay_s);
                options.loss = loss;
                options.queue_bytes = queue_bytes;
                options.mark_bytes = mark_bytes;
                options.seed = seed;
                options.burst_bytes = burst_bytes;
                new (self) port::PortOptions(options);
            },
            nb::kw_only(), "rate_bps"_a.none(), "delay_s"_a, "loss"_a, "queue_bytes"_a,
            "mark_bytes"_a.none(), "seed"_a, "burst_bytes"_a = 0);
}

void bind_queue(nb::module_& module) {
    nb::class_<PythonQueue>(module, "CompletionQueue",
                            "Completions of a node's operations, for one thread or event loop.")
        .def(nb::init<PythonNode&>(), "node"_a, nb::keep_alive<1, 2>())
        .def("add", &PythonQueue::add, "operation"_a,
             "Delivers the operation's completion to this queue, and nowhere else.")
        .def("add_batched", &PythonQueue::add_batched, "operation"_a,
             "Delivers the completion batched: it alone does not make `fd` readable.")
        .def("flush", &PythonQueue::flush, "operation"_a,
             "Makes `fd` signal an operation that was added batched, and starts deferred "
             "operations.")
        .def("take", &PythonQueue::take,
             "(operation, status, detail) of operations that ended since the last call.")
        .def_prop_ro("fd", &PythonQueue::fd, "Readable when `take` has entries.");
}

void bind_completions(nb::class_<PythonNode, NodeHandle>& node) {
    node.def("wait", &PythonNode::wait, "operation"_a, "timeout_s"_a)
        .def("run", &PythonNode::run, "operation"_a, "publishes"_a, "into"_a, "seq"_a,
             "timeout_s"_a,
             "Runs an operation with these contiguous arrays to its end; (status, detail). "
             "Interrupted, it cancels the operation and raises.")
        .def(
            "done",
            [](PythonNode& self, OperationId id) { return self.thread().completions().done(id); },
            "operation"_a)
        .def("discard", &PythonNode::discard, "operation"_a,
             "Discards the completion of an operation that is in no queue.")
        .def("keep_operation_times",
             [](PythonNode& self) { self.thread().completions().keep_times(); })
        .def("take_operation_times", &PythonNode::take_operation_times,
             "(operation, started, first segment, ended) in ns of the monotonic clock.");
}

}  // namespace

void bind_node(nb::module_& module) {
    bind_shape(module);
    bind_settings(module);
    bind_signing(module);
    bind_node_handle(module);
    module.def("describe_metrics", &describe_metrics,
               "(key, Prometheus name, kind, help) of each counter, by table of the status.");
    module.attr("STATUS_DONE") = static_cast<int>(OperationStatus::kDone);
    module.attr("STATUS_DEADLINE_EXCEEDED") = static_cast<int>(OperationStatus::kDeadlineExceeded);
    module.attr("STATUS_MISMATCH") = static_cast<int>(OperationStatus::kMismatch);
    module.attr("STATUS_OVERFLOW") = static_cast<int>(OperationStatus::kOverflow);
    module.attr("STATUS_ABORTED") = static_cast<int>(OperationStatus::kAborted);
    module.attr("STATUS_CANCELLED") = static_cast<int>(OperationStatus::kCancelled);
    module.attr("STATUS_NO_ROUTE") = static_cast<int>(OperationStatus::kNoRoute);
    module.attr("STATUS_UNTRUSTED") = static_cast<int>(OperationStatus::kUntrusted);
    module.attr("STATUS_ABSENT") = static_cast<int>(OperationStatus::kAbsent);
    module.attr("STATUS_PEER_FAILED") = static_cast<int>(OperationStatus::kPeerFailed);
    nb::class_<PythonNode, NodeHandle> node(module, "Node",
                                            "A node running on a thread of its own.");
    node.def(nb::init<const NodeSettings&, const SigningKey&, const std::vector<SigningKey>&>(),
             "settings"_a, "signing_key"_a, "trusted_keys"_a)
        .def(
            "add_link",
            [](PythonNode& self, std::string local_address, std::uint16_t local_port,
               std::string peer_address, std::uint16_t peer_port, int fd, bool beside_listener,
               std::size_t datagram_bytes, int receive_buffer_bytes, int send_buffer_bytes,
               const std::optional<simulation::LinkOptions>& shape) {
                return self.add_link({.endpoints = {.local_address = std::move(local_address),
                                                    .local_port = local_port,
                                                    .peer_address = std::move(peer_address),
                                                    .peer_port = peer_port,
                                                    .bound_fd = fd,
                                                    .beside_listener = beside_listener,
                                                    .datagram_bytes = datagram_bytes},
                                      .receive_buffer_bytes = receive_buffer_bytes,
                                      .send_buffer_bytes = send_buffer_bytes,
                                      .shape = shape});
            },
            nb::kw_only(), "local_address"_a, "local_port"_a, "peer_address"_a, "peer_port"_a,
            "fd"_a = -1, "beside_listener"_a = false, "datagram_bytes"_a = 0,
            "receive_buffer_bytes"_a = 4 << 20, "send_buffer_bytes"_a = 4 << 20,
            "shape"_a = nb::none(),
            "A link over UDP. `fd`: a socket that is bound already. `beside_listener`: `listen` "
            "may have the same port at all addresses. `datagram_bytes`: larger packets travel in "
            "fragments of this size; 0: whole.")
        .def(
            "add_socket_link",
            [](PythonNode& self, int fd, std::size_t datagram_bytes, int receive_buffer_bytes,
               int send_buffer_bytes, const std::optional<simulation::LinkOptions>& shape) {
                driver::LinkOptions options;
                options.endpoints.connected_fd = fd;
                options.endpoints.datagram_bytes = datagram_bytes;
                options.receive_buffer_bytes = receive_buffer_bytes;
                options.send_buffer_bytes = send_buffer_bytes;
                options.shape = shape;
                return self.add_link(options);
            },
            nb::kw_only(), "fd"_a, "datagram_bytes"_a = 0, "receive_buffer_bytes"_a = 4 << 20,
            "send_buffer_bytes"_a = 4 << 20, "shape"_a = nb::none(),
            "A link over a datagram socket that is connected already: of UDP, or one end of a "
            "pair. Takes the descriptor over. `datagram_bytes`: larger packets travel over UDP in "
            "fragments of this size; 0: whole.")
        .def("add_shared_memory_link", &PythonNode::add_shared_memory_link, nb::kw_only(), "end"_a,
             "memory_fd"_a, "own_event_fd"_a, "peer_event_fd"_a, "shape"_a = nb::none(),
             "trusted"_a = false,
             "A link whose ends, 0 and 1, share a memfd, and have an eventfd each. Takes the "
             "descriptors over. Over a `trusted` link, segments go without MACs.")
        .def(
            "reshape_link",
            [](PythonNode& self, FaceId face, const simulation::LinkOptions& shape, bool up) {
                bool found = false;
                self.call([&](Engine& engine) {
                    found = self.thread().reshape_link(face, shape, up, engine.now);
                });
                if (!found) throw nb::value_error("the node has no link with this number");
            },
            "face"_a, nb::kw_only(), "shape"_a, "up"_a = true,
            "From now on, the link has another shape; one that is not `up` loses all packets.")
        .def(
            "listen",
            [](PythonNode& self, std::string uri, unsigned permissions, bool takes_over,
               double udp_idle_timeout_s, bool beside_links) {
                nb::gil_scoped_release release;
                return self.listen({.uri = std::move(uri),
                                    .permissions = static_cast<mode_t>(permissions),
                                    .takes_over = takes_over,
                                    .beside_links = beside_links,
                                    .udp_idle_timeout = from_seconds(udp_idle_timeout_s)});
            },
            "uri"_a, nb::kw_only(), "permissions"_a = 0600, "takes_over"_a = false,
            "udp_idle_timeout_s"_a = 600.0, "beside_links"_a = false,
            "Lets NDN programs connect at unix:///path, tcp4://address:port or udp4://address:port "
            "(port 0: a free one); the URI. RuntimeError when it cannot be had. A Unix socket of a "
            "living process is taken only with `takes_over`. A UDP port that links of this node "
            "have at their addresses, added with `beside_listener`, is taken with "
            "`beside_links`.")
        .def("start", [](PythonNode& self) { self.thread().start(); })
        .def(
            "set_realtime_priority",
            [](PythonNode& self, int priority) {
                return self.thread().set_realtime_priority(priority);
            },
            "priority"_a,
            "Lets the started node's thread run before all threads of ordinary priority, and "
            "before those of a lower real-time priority (1 to 99). False: the system does not "
            "allow it.")
        .def("add_tap", &PythonNode::add_tap, "path"_a, "faces"_a,
             "Copies packets of these faces to the listener at a Unix socket, until it closes.")
        .def("stop", &PythonNode::stop, "why"_a);
    bind_completions(node);
    bind_queue(module);
}

}  // namespace innet::bindings
