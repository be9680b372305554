// The management of a node, as Python sets it up.

#include <nanobind/stl/vector.h>

#include <vector>

#include "innet/_native/node_handle.hpp"
#include "innet/_native/signing.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using driver::Engine;
using nb::literals::operator""_a;

void authorise_commands(NodeHandle& self, const std::vector<SigningKey>& keys, bool localhop_rib) {
    management::AuthorisationOptions options;
    options.localhop_rib = localhop_rib;
    for (const SigningKey& key : keys) options.keys.push_back({key.type, key.name, key.secret});
    self.call([&](Engine& engine) { engine.management.authorise(options); });
}

}  // namespace

void bind_management_of(nb::class_<NodeHandle>& node) {
    node.def("authorise_commands", &authorise_commands, "keys"_a, "localhop_rib"_a = false,
             "From now on management commands are obeyed that one of these keys has signed; with "
             "no keys, all that local programs sign, as at the start. `localhop_rib`: routes may "
             "be registered from one hop away, too, by the listed keys. Raises ValueError for a "
             "malformed key, and for `localhop_rib` without any key.");
}

}  // namespace innet::bindings
