// Keep requests that a node serves by itself, and their reports to Python.

#include "innet/_native/keeping.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>
#include <utility>

#include "innet/_native/byte_arguments.hpp"
#include "innet/_native/name_argument.hpp"
#include "innet/_native/node_settings.hpp"

namespace nb = nanobind;

namespace innet::bindings {

using driver::Engine;
using nb::literals::operator""_a;

namespace {

/// A kept object, for Python.
struct Kept {
    std::shared_ptr<const KeptObject> object;
};

using ReadRequest =
    std::tuple<std::string, std::string, std::vector<std::pair<std::string, std::uint64_t>>>;

nb::object outcome_of(RequestedObject& requested) {
    if (requested.kept) return nb::cast(Kept{std::move(requested.kept)});
    if (requested.outcomes.empty()) return nb::none();
    nb::list ends;
    for (const auto& end : requested.outcomes) {
        end ? ends.append(static_cast<int>(*end)) : ends.append(nb::none());
    }
    return ends;
}

void keep_objects(NodeHandle& self, const wire::Name& requests, const wire::Name& signer,
                  const SigningKey& key, nb::bytes answer, std::size_t max_packet_bytes,
                  std::size_t window, double fetch_s, double answer_s, std::uint64_t budget_bytes) {
    const wire::ByteView contents = view_of(answer);
    KeepOptions options{.requests = requests,
                        .signer = signer,
                        .answer_signer = self.object_signer(key),
                        .answer = {contents.begin(), contents.end()},
                        .max_packet_bytes = max_packet_bytes,
                        .window = window,
                        .fetch_time = from_seconds(fetch_s),
                        .answer_time = from_seconds(answer_s),
                        .budget_bytes = budget_bytes};
    self.post_or_throw([options = std::move(options)](Engine& engine) {
        engine.endpoint.keep_objects(options, engine.keyring, engine.now);
    });
}

// Deferred: the node runs these with its next event, without a wake-up of its own.
void adopt_objects(NodeHandle& self, const std::vector<std::string_view>& objects) {
    self.post_deferred_or_throw([names = names_from_uris(objects)](Engine& engine) {
        engine.endpoint.adopt_objects(names);
    });
}

void acknowledge_kept(NodeHandle& self, const wire::Name& requests, std::size_t objects,
                      std::uint64_t bytes, std::uint64_t budget_bytes) {
    self.post_deferred_or_throw(
        [requests, acknowledgement = KeepAcknowledgement{objects, bytes, budget_bytes}](
            Engine& engine) { engine.endpoint.acknowledge_kept(requests, acknowledgement); });
}

std::optional<ReadRequest> read_keep_request(const wire::Name& name, const wire::Name& requests) {
    const auto request = KeepRequest::parse(name.view(), requests);
    if (!request) return std::nullopt;
    std::vector<std::pair<std::string, std::uint64_t>> blocks;
    for (const KeepRequest::Block& block : request->blocks) {
        blocks.emplace_back(block.name.view().to_uri(), block.depth);
    }
    return ReadRequest{request->requester, request->source, std::move(blocks)};
}

}  // namespace

nb::list requested_objects(NodeHandle& self) {
    nb::list result;
    for (RequestedObject& requested : self.take_requested_objects()) {
        result.append(nb::make_tuple(requested.name.view().to_uri(), outcome_of(requested)));
    }
    return result;
}

void bind_kept_object(nb::module_& module) {
    module.def("read_keep_request", &read_keep_request, "name"_a, "requests"_a,
               "Parses the name of a keep request: requester, source, and the blocks with their "
               "depths; None: not a keep request.");
    module.def("places_of_object", &places_of_object, "size_bytes"_a,
               "Places of a window that an object takes; a window of n objects of 1 MiB or more "
               "has as many as they take.");
    nb::class_<Kept>(module, "KeptObject",
                     "An object that a node fetched for a keep request, and serves.")
        .def(
            "read",
            [](const Kept& self) {
                const KeptObject& object = *self.object;
                return std::tuple(ObjectBuffer{object.memory(), nb::none()},
                                  object.memory()->charge(), object.depth(), object.requesters(),
                                  !object.is_replaced());
            },
            "Its buffer and the memory that it takes; its depth in its prompt, from the first "
            "request; the nodes that "
            "requested it; and whether the node serves it: not if something else was published "
            "under its name.");
}

void bind_keeping_of(nb::class_<NodeHandle>& node) {
    node.def("keep_objects", &keep_objects, "requests"_a, "signer"_a, "key"_a, nb::kw_only(),
             "answer"_a, "max_packet_bytes"_a, "window"_a, "fetch_s"_a, "answer_s"_a,
             "budget_bytes"_a,
             "Serves keep requests from now on, and reports them in `take_requested_objects`.")
        .def("adopt_objects", &adopt_objects, "objects"_a,
             "Turns kept objects into ordinary published objects.")
        .def("acknowledge_kept", &acknowledge_kept, "requests"_a, "objects"_a, "bytes"_a,
             "budget_bytes"_a,
             "Acknowledges kept objects, adopted or not, and sets the memory limit for "
             "unacknowledged ones.")
        .def(
            "stop_keeping",
            [](NodeHandle& self, const wire::Name& requests) {
                self.post([requests](Engine& engine) {
                    engine.endpoint.stop_keeping(requests, engine.now);
                });
            },
            "requests"_a, "Drops kept objects that are not adopted.");
}

}  // namespace innet::bindings
