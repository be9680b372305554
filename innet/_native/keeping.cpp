// What a node keeps by itself because others ask it to, and what Python hears of it.

#include "innet/_native/keeping.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>
#include <utility>

#include "innet/_native/name_argument.hpp"

namespace nb = nanobind;

namespace innet::bindings {

using driver::Engine;
using nb::literals::operator""_a;

namespace {

/// For Python: an object that the node keeps.
struct Kept {
    std::shared_ptr<const KeptObject> object;
};

using ReadRequest =
    std::tuple<std::string, std::string, std::vector<std::pair<std::string, std::uint64_t>>>;

nb::object told_of(AskedObject& asked) {
    if (asked.kept) return nb::cast(Kept{std::move(asked.kept)});
    if (asked.tried.empty()) return nb::none();
    nb::list ends;
    for (const auto& end : asked.tried) {
        end ? ends.append(static_cast<int>(*end)) : ends.append(nb::none());
    }
    return ends;
}

// What a node does with these, it does not do before something else happens at it.
void adopt_objects(NodeHandle& self, const std::vector<std::string>& objects) {
    std::vector<wire::Name> names;
    for (const std::string& object : objects) names.push_back(name_from_uri(object));
    self.tell_unhurried(
        [names = std::move(names)](Engine& engine) { engine.endpoint.adopt_objects(names); });
}

void hear_of_kept(NodeHandle& self, const wire::Name& requests, std::size_t objects,
                  std::uint64_t bytes, std::uint64_t room_bytes) {
    self.tell_unhurried([requests, heard = KeptHeard{objects, bytes, room_bytes}](Engine& engine) {
        engine.endpoint.hear_of_kept(requests, heard);
    });
}

std::optional<ReadRequest> read_keep_request(const wire::Name& name, const wire::Name& requests) {
    const auto request = KeepRequest::parse(name.view(), requests);
    if (!request) return std::nullopt;
    std::vector<std::pair<std::string, std::uint64_t>> blocks;
    for (const KeepRequest::Block& block : request->blocks) {
        blocks.emplace_back(block.name.view().to_uri(), block.depth);
    }
    return ReadRequest{request->asker, request->source, std::move(blocks)};
}

}  // namespace

nb::list asked_objects(NodeHandle& self) {
    nb::list result;
    for (AskedObject& asked : self.take_objects_asked()) {
        result.append(nb::make_tuple(asked.name.view().to_uri(), told_of(asked)));
    }
    return result;
}

void bind_kept_object(nb::module_& module) {
    module.def("read_keep_request", &read_keep_request, "name"_a, "requests"_a,
               "Asker, source, and the blocks with their depths, as a node that keeps by itself "
               "reads them from a request's name; None: it leaves that to others.");
    nb::class_<Kept>(module, "KeptObject",
                     "An object that a node has fetched and serves by itself.")
        .def_prop_ro(
            "depth", [](const Kept& self) { return self.object->depth(); },
            "As the first request for it says.")
        .def_prop_ro(
            "askers", [](const Kept& self) { return self.object->askers(); },
            "The nodes that asked for it.")
        .def_prop_ro(
            "buffer",
            [](const Kept& self) { return ObjectBuffer{self.object->memory(), nb::none()}; })
        .def_prop_ro(
            "is_replaced", [](const Kept& self) { return self.object->is_replaced(); },
            "The node does not serve it: something was published under its name since.");
}

void bind_keeping_of(nb::class_<NodeHandle>& node) {
    node.def("keep_objects", &NodeHandle::keep_objects, "requests"_a, "signer"_a, "key"_a,
             nb::kw_only(), "answer"_a, "max_packet_bytes"_a, "window"_a, "fetch_s"_a, "answer_s"_a,
             "room_bytes"_a,
             "Does what requests to keep objects ask for from now on, as far as it can, and tells "
             "of it in `take_objects_asked`.")
        .def("adopt_objects", &adopt_objects, "objects"_a,
             "Objects that the node keeps by itself are like others that were published here.")
        .def("hear_of_kept", &hear_of_kept, "requests"_a, "objects"_a, "bytes"_a, "room_bytes"_a,
             "So many objects that the node keeps by itself were heard of, adopted or not; for "
             "others, with those still to be heard of, there is so much room.")
        .def(
            "stop_keeping",
            [](NodeHandle& self, const wire::Name& requests) {
                self.post([requests](Engine& engine) {
                    engine.endpoint.stop_keeping(requests, engine.now);
                });
            },
            "requests"_a, "What was kept, and not adopted, is dropped.");
}

}  // namespace innet::bindings
