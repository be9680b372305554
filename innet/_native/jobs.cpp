// Jobs that share a node, as Python installs them.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "innet/_native/name_argument.hpp"
#include "innet/_native/node_handle.hpp"
#include "innet/_native/signing.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using driver::Engine;
using nb::literals::operator""_a;

void install_job(NodeHandle& self, const std::string& prefix, std::uint32_t weight,
                 const std::optional<SigningKey>& signing_key,
                 const std::vector<SigningKey>& trusted_keys) {
    const wire::Name name = name_from_uri(prefix);
    make_keyring(trusted_keys);  // whatever is malformed is refused before anything changes
    auto signer = signing_key ? make_signer(*signing_key) : nullptr;
    self.call([&](Engine& engine) {
        engine.node.install_job(name, weight, std::move(signer));
        engine.keyring.remove_scope(name);
        for (const SigningKey& key : trusted_keys) {
            [[maybe_unused]] const bool added = add_key(engine.keyring, key, name, engine.now);
        }
    });
}

void let_programs_ask(NodeHandle& self, const std::string& prefix) {
    const wire::Name name = name_from_uri(prefix);
    self.call([&](Engine& engine) { engine.node.let_programs_ask(name); });
}

void remove_job(NodeHandle& self, const std::string& prefix) {
    const wire::Name name = name_from_uri(prefix);
    self.call([&](Engine& engine) {
        engine.node.remove_job(name, engine.now);
        engine.keyring.remove_scopes_below(name);
    });
}

void drop_cached(NodeHandle& self, const std::string& prefix) {
    const wire::Name name = name_from_uri(prefix);
    self.call([&](Engine& engine) {
        engine.node.erase_cache(name.view(), std::numeric_limits<std::size_t>::max());
    });
}

void install_group_keys(NodeHandle& self, const std::vector<std::string>& prefixes,
                        const std::optional<SigningKey>& signing_key,
                        const std::vector<SigningKey>& trusted_keys) {
    std::vector<wire::Name> groups;
    for (const std::string& prefix : prefixes) groups.push_back(name_from_uri(prefix));
    make_keyring(trusted_keys);  // whatever is malformed is refused before anything changes
    // All share one signer: two signers would start with the same nonce.
    const std::shared_ptr<security::Signer> signer =
        signing_key ? make_signer(*signing_key) : nullptr;
    self.call([&](Engine& engine) {
        for (const wire::Name& group : groups) {
            engine.node.reducer().set_group_signer(group, signer);
            engine.endpoint.set_signer(group, signer);
            engine.keyring.remove_scope(group);
            for (const SigningKey& key : trusted_keys) {
                [[maybe_unused]] const bool added = add_key(engine.keyring, key, group, engine.now);
            }
        }
    });
}

void remove_group(NodeHandle& self, const std::string& group) {
    const wire::Name name = name_from_uri(group);
    self.call([&](Engine& engine) {
        engine.node.remove_group(name);
        engine.endpoint.set_signer(name, nullptr);
        engine.keyring.remove_scope(name);
    });
}

void bind_face(NodeHandle& self, FaceId face, const std::optional<std::string>& prefix) {
    const wire::Name name = prefix ? name_from_uri(*prefix) : wire::Name();
    self.call([&](Engine& engine) { engine.node.bind_face(face, name); });
}

void admit_face(NodeHandle& self, FaceId face, const std::optional<std::string>& prefix) {
    const wire::Name name = prefix ? name_from_uri(*prefix) : wire::Name();
    self.call([&](Engine& engine) { engine.node.admit_face(face, name); });
}

void dismiss_face(NodeHandle& self, FaceId face, const std::string& prefix) {
    const wire::Name name = name_from_uri(prefix);
    self.call([&](Engine& engine) { engine.node.dismiss_face(face, name); });
}

}  // namespace

void bind_jobs_of(nb::class_<NodeHandle>& node) {
    node.def("install_job", &install_job, "prefix"_a, "weight"_a, "signing_key"_a.none(),
             "trusted_keys"_a,
             "Serves the job of that prefix (/j1, or two components as /kv/7f3a): its sums are "
             "signed with its key (None: with the "
             "node's own), and the trusted keys vouch for its names alone.")
        .def("let_programs_ask", &let_programs_ask, "prefix"_a,
             "NDN programs may request names of that job, until it is removed; Data that they send "
             "under these names are dropped.")
        .def("remove_job", &remove_job, "prefix"_a,
             "Takes the job's rules, slots, pending Interests, cached Data and keys away.")
        .def("drop_cached", &drop_cached, "prefix"_a,
             "Takes cached Data below the prefix away; what the node publishes itself stays.")
        .def("install_group_keys", &install_group_keys, "prefixes"_a, "signing_key"_a.none(),
             "trusted_keys"_a,
             "For a group whose names begin with any of the prefixes: the key signs (None: the "
             "node's own does) the sums of rules there and what producers that are registered from "
             "now on publish, and the trusted keys vouch for names below the prefixes alone.")
        .def("remove_group", &remove_group, "group"_a,
             "Takes away the group's rules, slots and keys, and what is cached of it.")
        .def("bind_face", &bind_face, "face"_a, "prefix"_a.none(),
             "From now on the face carries names of that job alone; None: names of no job.")
        .def(
            "admit_face", &admit_face, "face"_a, "prefix"_a.none(),
            "The face carries names of that job, too, until it is bound to another or none, or the "
            "job is removed; None: names of no job, too.")
        .def("dismiss_face", &dismiss_face, "face"_a, "prefix"_a,
             "Takes `admit_face` back; no effect on a face that was not admitted.");
}

}  // namespace innet::bindings
