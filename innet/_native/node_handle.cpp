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

namespace {

/// Neighbours drop Holds with any other label.
void require_label(const std::string& label) {
    if (wire::is_label({reinterpret_cast<const std::uint8_t*>(label.data()), label.size()})) return;
    throw nb::value_error(("invalid label '" + label + "': expected 1 to " +
                           std::to_string(wire::kMaxLabelSize) +
                           " printable ASCII characters, such as a rank or a node's name")
                              .c_str());
}

/// Claims a buffer for one object; releases the claim when the operation cannot begin.
class BufferClaim {
  public:
    explicit BufferClaim(ObjectMemory& memory) : memory_(&memory) {
        if (!memory.claim()) {
            throw nb::value_error(
                "this ObjectBuffer is another object's: make one for each object");
        }
    }
    ~BufferClaim() {
        if (memory_ != nullptr) memory_->release_claim();
    }
    BufferClaim(const BufferClaim&) = delete;
    BufferClaim& operator=(const BufferClaim&) = delete;

    void keep() { memory_ = nullptr; }

  private:
    ObjectMemory* memory_;
};

std::shared_ptr<security::SegmentTagger> make_tagger(const nb::bytes& key) {
    const std::span<const std::uint8_t> bytes(static_cast<const std::uint8_t*>(key.data()),
                                              key.size());
    if (bytes.size() != security::SegmentTagger::kKeySize) {
        throw nb::value_error("a key for tags has 64 bytes");
    }
    return std::make_shared<security::SegmentTagger>(
        bytes.first<security::SegmentTagger::kKeySize>());
}

}  // namespace

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

OperationId NodeHandle::publish_object(const wire::Name& name, ReadableBytes bytes,
                                       const SigningKey& key, std::size_t max_packet_bytes,
                                       const ObjectBuffer* root_into, bool draft, bool deferred) {
    ObjectSpec spec{name, {bytes.data(), bytes.size()}, max_packet_bytes};
    spec.draft = draft;
    std::optional<BufferClaim> claim;
    if (root_into != nullptr) {
        claim.emplace(*root_into->memory);
        spec.root_into = root_into->memory;
    }
    std::shared_ptr<security::Signer> signer = object_signer(key);
    const OperationId id = begin(
        {nb::cast(bytes)},
        [spec = std::move(spec), signer = std::move(signer)](Engine& engine, auto operation) {
            engine.endpoint.publish_object(operation, spec, signer);
        },
        deferred);
    if (claim) claim->keep();
    return id;
}

std::pair<OperationId, std::vector<ObjectBuffer>> NodeHandle::publish_objects(
    const std::vector<std::string>& names, const std::vector<ReadableBytes>& data,
    const SigningKey& key, std::size_t max_packet_bytes, bool draft) {
    if (names.empty() || names.size() != data.size()) {
        throw nb::value_error("expected as many names as data, and at least one");
    }
    std::vector<ObjectSpec> specs;
    std::vector<ObjectBuffer> roots;
    std::vector<nb::object> owners;
    for (const wire::Name& name : names_from_uris(names)) {
        const ReadableBytes& bytes = data[specs.size()];
        const auto memory = std::make_shared<ObjectMemory>();
        memory->claim();
        specs.push_back({name, {bytes.data(), bytes.size()}, max_packet_bytes});
        specs.back().root_into = memory;
        specs.back().draft = draft;
        owners.push_back(nb::cast(bytes));
        specs.back().lent = lent_.lend(owners.back());
        roots.push_back({memory, nb::none()});
    }
    const OperationId id = begin(
        std::move(owners),
        [specs = std::move(specs), signer = object_signer(key)](Engine& engine, auto operation) {
            engine.endpoint.publish_objects(operation, specs, signer);
        },
        true);
    return {id, std::move(roots)};
}

std::shared_ptr<security::Signer> NodeHandle::object_signer(const SigningKey& key) {
    const auto known =
        std::ranges::find(object_signers_, key, &decltype(object_signers_)::value_type::first);
    if (known != object_signers_.end()) return known->second;
    return object_signers_.emplace_back(key, make_signer(key)).second;
}

OperationId NodeHandle::fetch_object(const wire::Name& name, const wire::Name& hint,
                                     const wire::Name& signer, nb::handle_t<ObjectBuffer> into,
                                     double timeout_s, bool may_be_absent) {
    const std::shared_ptr<ObjectMemory>& memory = nb::cast<const ObjectBuffer&>(into).memory;
    return begin_fetch({name, hint, signer, memory, {}, may_be_absent, false}, {nb::borrow(into)},
                       timeout_s, false);
}

std::vector<std::pair<OperationId, ObjectBuffer>> NodeHandle::fetch_objects(
    const std::vector<std::string>& names, const wire::Name& hint, const wire::Name& signer,
    double timeout_s, bool root_only, bool to_neighbour, const std::vector<std::string>& attached,
    std::size_t max_request_bytes) {
    const auto attached_names = names_from_uris(attached);
    std::vector<std::pair<OperationId, ObjectBuffer>> fetches;
    for (const wire::Name& name : names_from_uris(names)) {
        const auto memory = std::make_shared<ObjectMemory>();
        const bool is_last = fetches.size() + 1 == names.size();
        const OperationId id = begin_fetch({.object = name,
                                            .hint = hint,
                                            .signer = signer,
                                            .memory = memory,
                                            .may_be_absent = true,
                                            .root_only = root_only,
                                            .to_neighbour = to_neighbour,
                                            .attached = attached_names,
                                            .max_request_bytes = max_request_bytes},
                                           {}, timeout_s, !is_last);
        fetches.emplace_back(id, ObjectBuffer{memory, nb::none()});
    }
    return fetches;
}

OperationId NodeHandle::begin_fetch(ObjectFetchSpec spec, std::vector<nb::object> owners,
                                    double timeout_s, bool deferred) {
    BufferClaim claim(*spec.memory);
    const OperationId id = begin(
        std::move(owners),
        [spec = std::move(spec), timeout = from_seconds(timeout_s)](Engine& engine,
                                                                    OperationId operation) mutable {
            spec.deadline = engine.now + timeout;
            engine.endpoint.fetch_object(operation, std::move(spec), engine.now);
        },
        deferred);
    claim.keep();
    return id;
}

OperationId NodeHandle::publish_sealed_object(const wire::Name& name, ReadableBytes bytes,
                                              nb::bytes root, std::size_t max_packet_bytes) {
    SealedObjectSpec spec{
        {name, {bytes.data(), bytes.size()}, max_packet_bytes},
        {static_cast<const std::uint8_t*>(root.data()), root.size()},
    };
    spec.object.lent = lent_.lend(nb::cast(bytes));
    return begin({nb::cast(bytes), root}, [spec](Engine& engine, OperationId id) {
        engine.endpoint.publish_sealed_object(id, spec, engine.keyring);
    });
}

OperationId NodeHandle::publish_fetched_object(const wire::Name& name,
                                               nb::handle_t<ObjectBuffer> fetched,
                                               std::size_t max_packet_bytes) {
    const std::shared_ptr<ObjectMemory>& memory = nb::cast<const ObjectBuffer&>(fetched).memory;
    if (!memory->is_complete()) {
        throw nb::value_error("no whole object is in this buffer: wait until its fetch is done");
    }
    SealedObjectSpec spec{
        {name, memory->bytes(), max_packet_bytes}, memory->root(), memory->digests()};
    spec.object.lent =
        memory->is_given() ? lent_.lend(nb::borrow(fetched)) : std::shared_ptr<const void>(memory);
    return begin({nb::borrow(fetched)}, [spec](Engine& engine, OperationId id) {
        engine.endpoint.publish_sealed_object(id, spec, engine.keyring);
    });
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

OperationId NodeHandle::watch_objects() {
    return begin({}, [](Engine& engine, OperationId id) { engine.endpoint.watch_objects(id); });
}

std::vector<RequestedObject> NodeHandle::take_requested_objects() {
    std::vector<RequestedObject> requested;
    call([&](Engine& engine) { requested = engine.endpoint.take_requested_objects(); });
    return requested;
}

void NodeHandle::keep_objects(const wire::Name& requests, const wire::Name& signer,
                              const SigningKey& key, nb::bytes answer, std::size_t max_packet_bytes,
                              std::size_t window, double fetch_s, double answer_s,
                              std::uint64_t budget_bytes) {
    const wire::ByteView contents = view_of(answer);
    KeepOptions options{.requests = requests,
                        .signer = signer,
                        .answer_signer = object_signer(key),
                        .answer = {contents.begin(), contents.end()},
                        .max_packet_bytes = max_packet_bytes,
                        .window = window,
                        .fetch_time = from_seconds(fetch_s),
                        .answer_time = from_seconds(answer_s),
                        .budget_bytes = budget_bytes};
    post_or_throw([options = std::move(options)](Engine& engine) {
        engine.endpoint.keep_objects(options, engine.keyring, engine.now);
    });
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
            [](NodeHandle& self, const wire::Name& prefix, std::uint64_t seq,
               const std::string& why) {
                self.post([prefix, seq, why](Engine& engine) {
                    engine.endpoint.end_producer(prefix, seq, why);
                });
            },
            "prefix"_a, "seq"_a, "why"_a,
            "Answers pending and later Interests for collectives from `seq` on with the error "
            "`why`.")
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

void bind_offered_objects_of(nb::class_<NodeHandle>& node) {
    node.def("watch_objects", &NodeHandle::watch_objects,
             "Starts an operation that ends as done when `take_requested_objects` has entries: at "
             "once for a pending Interest, else some milliseconds later.")
        .def(
            "take_requested_objects", &requested_objects,
            nb::sig(
                "def take_requested_objects(self) -> list[tuple[str, KeptObject | list[int | None] "
                "| None]]"),
            "Returns the objects requested since the last call, in order: each request for a "
            "published object of a refusing prefix, and each missing object once while an "
            "Interest for it is pending. The second item is None; a KeptObject that the node "
            "fetched by itself (`keep_objects`); or, for a keep request that the node could not "
            "complete, the results of its fetches.")
        .def(
            "expect_object",
            [](NodeHandle& self, const wire::Name& name) {
                self.post_or_throw([name](Engine& engine) { engine.endpoint.expect_object(name); });
            },
            "name"_a,
            "The object is on disk, or being produced: Interests for it stay pending until it is "
            "published or withdrawn.")
        .def(
            "object_root",
            [](NodeHandle& self, const wire::Name& name) -> std::optional<nb::bytes> {
                std::vector<std::uint8_t> root;  // packets do not leave their node's thread
                self.call([&](Engine& engine) {
                    const PacketRef packet = engine.endpoint.object_root(name);
                    root.assign(packet.bytes().begin(), packet.bytes().end());
                });
                if (root.empty()) return std::nullopt;
                return nb::bytes(root.data(), root.size());
            },
            "name"_a, "The root manifest (a Data packet) of an object published here.")
        .def(
            "withdraw_object",
            [](NodeHandle& self, const wire::Name& name) {
                self.post_or_throw(
                    [name](Engine& engine) { engine.endpoint.withdraw_object(name); });
            },
            "name"_a,
            "Drops a published or expected object; pending Interests for it are refused at once.")
        .def(
            "withdraw_objects_deferred",
            [](NodeHandle& self, const std::vector<std::string>& objects) {
                self.post_deferred_or_throw([names = names_from_uris(objects)](Engine& engine) {
                    for (const wire::Name& name : names) engine.endpoint.withdraw_object(name);
                });
            },
            "objects"_a,
            "Withdraws published objects before the node serves them again, without waking the "
            "node up.");
}

void bind_objects_of(nb::class_<NodeHandle>& node) {
    node.def(
            "register_objects",
            [](NodeHandle& self, const wire::Name& prefix, const std::string& label, bool wait,
               std::optional<nb::bytes> tag_key, const std::optional<SigningKey>& root_key) {
                using Missing = MissingObject;
                require_label(label);
                auto tagger = tag_key ? make_tagger(*tag_key) : nullptr;
                auto root_signer = root_key ? self.object_signer(*root_key) : nullptr;
                self.call([&](Engine& engine) {
                    engine.endpoint.register_objects(prefix, label,
                                                     wait ? Missing::kWait : Missing::kRefuse,
                                                     std::move(tagger), std::move(root_signer));
                });
            },
            "prefix"_a, "label"_a, "wait"_a = true, "tag_key"_a = nb::none(),
            "root_key"_a = nb::none(),
            "Interests for missing objects stay pending, or, without `wait`, their fetches end as "
            "absent. With a tag key of 64 bytes, objects under the prefix are published with "
            "tags, and fetched objects are verified by their tags, if any. root_key signs drafts "
            "that are published again.")
        .def(
            "unregister_objects",
            [](NodeHandle& self, const wire::Name& prefix) {
                self.post([prefix](Engine& engine) { engine.endpoint.unregister_objects(prefix); });
            },
            "prefix"_a)
        .def("publish_object", &NodeHandle::publish_object, "name"_a, "data"_a, "key"_a,
             "max_packet_bytes"_a, "root_into"_a.none() = nb::none(), "draft"_a = false,
             "deferred"_a = false,
             "root_into: an ObjectBuffer that receives the object's root. draft: signs the root "
             "once "
             "somebody needs that, if it has a tag. deferred: starts with the next operation, or "
             "when a queue flushes this one.")
        .def("publish_objects", &NodeHandle::publish_objects, "names"_a, "data"_a, "key"_a,
             "max_packet_bytes"_a, "draft"_a = false,
             "publish_object of several as one deferred operation; also an ObjectBuffer for the "
             "root "
             "of each. The data are not copied: they must not change until the objects are "
             "withdrawn.")
        .def("publish_sealed_object", &NodeHandle::publish_sealed_object, "name"_a, "data"_a,
             "root"_a, "max_packet_bytes"_a = kMaxPacketBytes,
             "Publishes bytes under a root manifest that was signed earlier; ends as untrusted "
             "when bytes, name or signature do not match. The data is not copied, and must not "
             "change until the object is withdrawn.")
        .def("publish_fetched_object", &NodeHandle::publish_fetched_object, "name"_a, "fetched"_a,
             "max_packet_bytes"_a = kMaxPacketBytes,
             "Publishes a fetched object under its name, without verifying it again: receivers "
             "reject it if its bytes were changed.")
        .def("fetch_object", &NodeHandle::fetch_object, "name"_a, "hint"_a, "signer"_a, "into"_a,
             "timeout_s"_a, "may_be_absent"_a = false,
             "may_be_absent: the object's prefix is registered there with wait=False; the fetch "
             "ends soon when no producer answers there.")
        .def("fetch_objects", &NodeHandle::fetch_objects, "names"_a, "hint"_a, "signer"_a,
             nb::kw_only(), "timeout_s"_a, "root_only"_a = false, "to_neighbour"_a = false,
             "attached"_a = std::vector<std::string>(), "max_request_bytes"_a = 0,
             "Fetches objects that may be absent, each into a buffer of its own: (operation, "
             "buffer) of each. root_only: fetches the root manifests alone. to_neighbour: the "
             "hint's node is at the other end of a link, and may answer with drafts. attached: "
             "objects of this node whose root manifests go with the first Interest to a "
             "neighbour, once they are published, if it has max_request_bytes at most.");
    bind_offered_objects_of(node);
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
