// Objects that a node publishes and fetches, and `ObjectBuffer`: memory for one.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <utility>

#include "innet/_native/byte_arguments.hpp"
#include "innet/_native/keeping.hpp"
#include "innet/_native/name_argument.hpp"
#include "innet/_native/network_text.hpp"
#include "innet/_native/node_handle.hpp"
#include "innet/_native/node_settings.hpp"
#include "transport/object/request_guard.hpp"
#include "transport/wire/text.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using driver::Engine;
using nb::literals::operator""_a;

using ObjectArray = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;

ObjectArray array_of(nb::handle_t<ObjectBuffer> self) {
    const std::span<std::uint8_t> bytes = nb::cast<const ObjectBuffer&>(self).memory->bytes();
    return ObjectArray(bytes.data(), {bytes.size()}, self);
}

/// An object is read in place, and not written to: others may be served it.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    const std::span<std::uint8_t> bytes = nb::inst_ptr<ObjectBuffer>(self)->memory->bytes();
    return PyBuffer_FillInfo(view, self, bytes.data(), static_cast<Py_ssize_t>(bytes.size()), 1,
                             flags);
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

std::shared_ptr<security::SegmentTagger> make_tagger(const nb::bytes& key) {
    const std::span<const std::uint8_t> bytes(static_cast<const std::uint8_t*>(key.data()),
                                              key.size());
    if (bytes.size() != security::SegmentTagger::kKeySize) {
        throw nb::value_error("a key for tags has 64 bytes");
    }
    return std::make_shared<security::SegmentTagger>(
        bytes.first<security::SegmentTagger::kKeySize>());
}

OperationId publish_object(NodeHandle& self, const wire::Name& name, ReadableBytes bytes,
                           const SigningKey& key, std::size_t max_packet_bytes) {
    return self.begin({nb::cast(bytes)},
                      [spec = ObjectSpec{name, {bytes.data(), bytes.size()}, max_packet_bytes},
                       signer = self.object_signer(key)](Engine& engine, OperationId operation) {
                          engine.endpoint.publish_object(operation, spec, signer);
                      });
}

/// A memory view, which takes less time than an array of nanobind.
std::pair<nb::object, std::span<const std::uint8_t>> viewed(nb::handle bytes) {
    auto view = nb::steal(PyMemoryView_FromObject(bytes.ptr()));
    if (!view.is_valid()) throw nb::python_error();
    const Py_buffer& buffer = *PyMemoryView_GET_BUFFER(view.ptr());
    if (buffer.itemsize != 1 || PyBuffer_IsContiguous(&buffer, 'C') == 0) {
        throw nb::type_error("expected contiguous bytes");
    }
    return {std::move(view),
            {static_cast<const std::uint8_t*>(buffer.buf), static_cast<std::size_t>(buffer.len)}};
}

std::pair<OperationId, std::vector<ObjectBuffer>> publish_objects(
    NodeHandle& self, const std::vector<std::string_view>& names,
    const std::vector<nb::object>& data, const SigningKey& key, std::size_t max_packet_bytes,
    bool draft) {
    if (names.empty() || names.size() != data.size()) {
        throw nb::value_error("expected as many names as data, and at least one");
    }
    std::vector<ObjectSpec> specs;
    std::vector<ObjectBuffer> roots;
    std::vector<nb::object> owners;
    specs.reserve(names.size());
    roots.reserve(names.size());
    owners.reserve(names.size());
    for (wire::Name& name : names_from_uris(names)) {
        auto [owner, bytes] = viewed(data[specs.size()]);
        const auto memory = std::make_shared<ObjectMemory>();
        memory->claim();
        specs.push_back({std::move(name), bytes, max_packet_bytes});
        specs.back().root_into = memory;
        specs.back().draft = draft;
        specs.back().lent = self.lend(owner);
        owners.push_back(std::move(owner));
        roots.push_back({memory, nb::none()});
    }
    const OperationId id = self.begin(
        std::move(owners),
        [specs = std::move(specs), signer = self.object_signer(key)](Engine& engine,
                                                                     auto operation) {
            engine.endpoint.publish_objects(operation, specs, signer);
        },
        true);
    return {id, std::move(roots)};
}

OperationId publish_sealed_object(NodeHandle& self, const wire::Name& name, ReadableBytes bytes,
                                  nb::bytes root, std::size_t max_packet_bytes) {
    SealedObjectSpec spec{
        {name, {bytes.data(), bytes.size()}, max_packet_bytes},
        {static_cast<const std::uint8_t*>(root.data()), root.size()},
    };
    spec.object.lent = self.lend(nb::make_tuple(bytes, root));
    return self.begin({nb::cast(bytes), root}, [spec](Engine& engine, OperationId id) {
        engine.endpoint.publish_sealed_object(id, spec, engine.keyring);
    });
}

OperationId publish_fetched_object(NodeHandle& self, const wire::Name& name,
                                   nb::handle_t<ObjectBuffer> fetched,
                                   std::size_t max_packet_bytes) {
    const std::shared_ptr<ObjectMemory>& memory = nb::cast<const ObjectBuffer&>(fetched).memory;
    if (!memory->is_complete()) {
        throw nb::value_error("no whole object is in this buffer: wait until its fetch is done");
    }
    SealedObjectSpec spec{
        {name, memory->bytes(), max_packet_bytes}, memory->root(), memory->digests()};
    spec.object.lent =
        memory->is_given() ? self.lend(nb::borrow(fetched)) : std::shared_ptr<const void>(memory);
    return self.begin({nb::borrow(fetched)}, [spec](Engine& engine, OperationId id) {
        engine.endpoint.publish_sealed_object(id, spec, engine.keyring);
    });
}

OperationId fetch_object(NodeHandle& self, const wire::Name& name, const wire::Name& hint,
                         const wire::Name& signer, nb::handle_t<ObjectBuffer> into,
                         double timeout_s, bool may_be_absent) {
    ObjectFetchSpec spec{.object = name,
                         .hint = hint,
                         .signer = signer,
                         .memory = nb::cast<const ObjectBuffer&>(into).memory,
                         .may_be_absent = may_be_absent};
    if (!spec.memory->claim()) {
        throw nb::value_error("this ObjectBuffer is another object's: make one for each object");
    }
    return self.begin({nb::borrow(into)},
                      [spec = std::move(spec), timeout = from_seconds(timeout_s)](
                          Engine& engine, OperationId operation) mutable {
                          spec.deadline = engine.now + timeout;
                          engine.endpoint.fetch_object(operation, std::move(spec), engine.now);
                      });
}

std::pair<OperationId, std::vector<ObjectBuffer>> fetch_objects(
    NodeHandle& self, const std::vector<std::string_view>& names, const wire::Name& hint,
    const wire::Name& signer, double timeout_s, bool root_only, bool to_neighbour,
    const std::vector<std::string_view>& attached, std::size_t max_request_bytes) {
    if (names.empty()) throw nb::value_error("expected at least one name");
    const auto attached_names = names_from_uris(attached);
    std::vector<ObjectFetchSpec> specs;
    std::vector<ObjectBuffer> buffers;
    specs.reserve(names.size());
    buffers.reserve(names.size());
    for (wire::Name& name : names_from_uris(names)) {
        const auto memory = std::make_shared<ObjectMemory>();
        memory->claim();
        buffers.push_back({memory, nb::none()});
        specs.push_back({.object = std::move(name),
                         .hint = hint,
                         .signer = signer,
                         .memory = memory,
                         .may_be_absent = true,
                         .root_only = root_only,
                         .to_neighbour = to_neighbour,
                         .attached = attached_names,
                         .max_request_bytes = max_request_bytes});
    }
    const OperationId id =
        self.begin({}, [specs = std::move(specs), timeout = from_seconds(timeout_s)](
                           Engine& engine, OperationId operation) mutable {
            for (ObjectFetchSpec& spec : specs) spec.deadline = engine.now + timeout;
            engine.endpoint.fetch_objects(operation, std::move(specs), engine.now);
        });
    return {id, std::move(buffers)};
}

void bind_offered_objects_of(nb::class_<NodeHandle>& node) {
    node.def(
            "watch_objects",
            [](NodeHandle& self) {
                return self.begin(
                    {}, [](Engine& engine, OperationId id) { engine.endpoint.watch_objects(id); });
            },
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
            [](NodeHandle& self, const std::vector<std::string_view>& objects) {
                self.post_deferred_or_throw([names = names_from_uris(objects)](Engine& engine) {
                    for (const wire::Name& name : names) engine.endpoint.withdraw_object(name);
                });
            },
            "objects"_a,
            "Withdraws published objects before the node serves them again, without waking the "
            "node up.");
}

}  // namespace

void bind_request_guard(nb::module_& module) {
    nb::class_<RequestTagger>(module, "RequestTagger",
                              "Computes tags of requests for a RequestGuard with the same key.")
        .def(
            "__init__",
            [](RequestTagger* self, const nb::bytes& key) {
                if (key.size() == 0) throw nb::value_error("a key has at least one byte");
                new (self) RequestTagger(view_of(key));
            },
            "key"_a)
        .def(
            "tag",
            [](RequestTagger& self, std::string_view text) {
                return digits_of(self.tag(wire::bytes_of(text)));
            },
            "text"_a, "The tag, in hexadecimal, of a request's name, whose proof has no tag yet.");
    nb::class_<RequestGuard>(module, "RequestGuard",
                             "Admits requests of holders of a key, each once. A guard is of one "
                             "node.")
        .def(
            "__init__",
            [](RequestGuard* self, const wire::Name& requests, const nb::bytes& key,
               std::uint64_t session) {
                if (key.size() == 0) throw nb::value_error("a key has at least one byte");
                new (self) RequestGuard(requests, view_of(key), session);
            },
            "requests"_a, "key"_a, "session"_a,
            "requests: their prefix, which the requester's name, the proof and the verb follow. "
            "session: the first session's random number.")
        .def_prop_ro("session", &RequestGuard::session,
                     "The number of the session that requests have to be of.");
}

void bind_object_buffer(nb::module_& module) {
    module.attr("BOOKKEEPING_BYTES") = kBookkeepingBytes;
    nb::class_<ObjectBuffer>(
        module, "ObjectBuffer", nb::type_slots(buffer_slots),
        "Memory for one object, of unknown size or of the caller's. A second fetch into it raises "
        "ValueError: others may be served what is there.")
        .def("__init__",
             [](ObjectBuffer* self) {
                 new (self) ObjectBuffer{std::make_shared<ObjectMemory>(), nb::none()};
             })
        .def(
            "__init__",
            [](ObjectBuffer* self, WritableBytes into) {
                const std::span<std::uint8_t> bytes(into.data(), into.size());
                new (self) ObjectBuffer{std::make_shared<ObjectMemory>(bytes), nb::cast(into)};
            },
            nb::arg("into"))
        .def("array", &array_of, "The object, once its fetch is done; it shares this memory.")
        .def(
            "root",
            [](const ObjectBuffer& self) {
                const std::span<const std::uint8_t> root = self.memory->root();
                return nb::bytes(root.data(), root.size());
            },
            "The root manifest (a Data packet) of what was fetched or published; empty before.")
        .def_prop_ro(
            "charge", [](const ObjectBuffer& self) { return self.memory->charge(); },
            "Memory in bytes that the object takes with its root manifest and bookkeeping; 0: none "
            "was fetched.")
        .def_prop_ro(
            "status",
            [](const ObjectBuffer& self) { return static_cast<int>(self.memory->status()); },
            "How its fetch by `fetch_objects` ended, once the operation is done.")
        .def_prop_ro(
            "detail", [](const ObjectBuffer& self) { return NetworkText{self.memory->detail()}; },
            "Readable text beside `status`.");
}

void bind_objects_of(nb::class_<NodeHandle>& node) {
    node.def(
            "register_objects",
            [](NodeHandle& self, const wire::Name& prefix, const std::string& label, bool wait,
               std::optional<nb::bytes> tag_key, const std::optional<SigningKey>& root_key,
               const std::shared_ptr<RequestGuard>& guard) {
                require_label(label);
                ObjectPrefix options{
                    .label = label,
                    .missing = wait ? MissingObject::kWait : MissingObject::kRefuse,
                    .tagger = tag_key ? make_tagger(*tag_key) : nullptr,
                    .root_signer = root_key ? self.object_signer(*root_key) : nullptr,
                    .guard = guard};
                self.call([&](Engine& engine) {
                    engine.endpoint.register_objects(prefix, std::move(options));
                });
            },
            "prefix"_a, "label"_a, "wait"_a = true, "tag_key"_a = nb::none(),
            "root_key"_a = nb::none(), "guard"_a.none() = nb::none(),
            "Interests for missing objects stay pending, or, without `wait`, their fetches end as "
            "absent. With a tag key of 64 bytes, objects under the prefix are published with "
            "tags, and fetched objects are verified by their tags, if any. root_key signs drafts "
            "that are published again. guard: missing objects are requests, of which those that "
            "it does not admit end as absent.")
        .def(
            "unregister_objects",
            [](NodeHandle& self, const wire::Name& prefix) {
                self.post([prefix](Engine& engine) { engine.endpoint.unregister_objects(prefix); });
            },
            "prefix"_a)
        .def("publish_object", &publish_object, "name"_a, "data"_a, "key"_a, "max_packet_bytes"_a)
        .def("publish_objects", &publish_objects, "names"_a, "data"_a, "key"_a,
             "max_packet_bytes"_a, "draft"_a = false,
             "Publishes several objects as one operation, which starts with the next one, or when "
             "a queue flushes it; also an ObjectBuffer for the root of each. The data are not "
             "copied: they must not change until the objects are withdrawn. draft: signs a root "
             "once somebody needs that, if it has a tag.")
        .def("publish_sealed_object", &publish_sealed_object, "name"_a, "data"_a, "root"_a,
             "max_packet_bytes"_a = kMaxPacketBytes,
             "Publishes bytes under a root manifest that was signed earlier; ends as untrusted "
             "when bytes, name or signature do not match. The data is not copied, and must not "
             "change until the object is withdrawn.")
        .def("publish_fetched_object", &publish_fetched_object, "name"_a, "fetched"_a,
             "max_packet_bytes"_a = kMaxPacketBytes,
             "Publishes a fetched object under its name, without verifying it again: receivers "
             "reject it if its bytes were changed.")
        .def("fetch_object", &fetch_object, "name"_a, "hint"_a, "signer"_a, "into"_a, "timeout_s"_a,
             "may_be_absent"_a = false,
             "may_be_absent: the object's prefix is registered there with wait=False; the fetch "
             "ends soon when no producer answers there.")
        .def("fetch_objects", &fetch_objects, "names"_a, "hint"_a, "signer"_a, nb::kw_only(),
             "timeout_s"_a, "root_only"_a = false, "to_neighbour"_a = false,
             "attached"_a = std::vector<std::string>(), "max_request_bytes"_a = 0,
             "Fetches objects that may be absent: one operation, and a buffer for each, which has "
             "its status. root_only: fetches the root manifests alone. to_neighbour: the hint's "
             "node is at the other end of a link, and may answer with drafts. attached: objects "
             "of this node whose root manifests go with the first Interest to a neighbour, once "
             "they are published, if it has max_request_bytes at most.");
    bind_offered_objects_of(node);
}

}  // namespace innet::bindings
