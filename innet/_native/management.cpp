// The management of a node, as Python sets it up.

#include <fcntl.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "innet/_native/name_argument.hpp"
#include "innet/_native/node_handle.hpp"
#include "innet/_native/signing.hpp"
#include "switch_emulator/driver/file_descriptor.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using driver::Engine;
using nb::literals::operator""_a;

void authorise_commands(NodeHandle& self, const std::vector<SigningKey>& keys, bool localhop_rib) {
    management::AuthorisationOptions options;
    options.localhop_rib = localhop_rib;
    const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
    const auto now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_1970);
    for (const SigningKey& key : keys) {
        management::AllowedKey allowed{key.type, key.name, key.secret};
        if (key.valid_for) {
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*key.valid_for);
            allowed.not_after_ms = static_cast<std::uint64_t>((now_ms + left).count());
        }
        options.keys.push_back(std::move(allowed));
    }
    self.call([&](Engine& engine) { engine.management.authorise(options); });
}

void notify_registrations(NodeHandle& self, int event_fd) {
    // A duplicate that stays open while it is written to, even if the caller closes its own.
    const auto kept =
        std::make_shared<driver::FileDescriptor>(::fcntl(event_fd, F_DUPFD_CLOEXEC, 0));
    if (!*kept) throw std::system_error(errno, std::generic_category(), "fcntl");
    self.call([&](Engine& engine) {
        engine.management.registered().listen([kept] {
            const std::uint64_t one = 1;
            [[maybe_unused]] const auto written = ::write(kept->get(), &one, sizeof one);
        });
    });
}

std::pair<std::vector<std::string>, std::size_t> take_registrations(NodeHandle& self,
                                                                    std::size_t limit) {
    std::vector<wire::Name> prefixes;
    std::size_t all = 0;
    self.call([&](Engine& engine) {
        prefixes = engine.management.registered().take(limit);
        all = engine.management.registered().size();
    });
    std::vector<std::string> uris;
    for (const wire::Name& prefix : prefixes) uris.push_back(prefix.view().to_uri());
    return {std::move(uris), all};
}

using Hops = std::vector<std::pair<FaceId, std::uint32_t>>;
using ServedElsewhere = std::vector<std::pair<std::vector<std::string>, Hops>>;

void set_network_routes(NodeHandle& self, const ServedElsewhere& served, bool anew) {
    std::vector<std::pair<std::vector<wire::Name>, std::vector<tables::NextHop>>> parts;
    for (const auto& [prefixes, hops] : served) {
        auto& [names, next_hops] = parts.emplace_back();
        for (const std::string& prefix : prefixes) names.push_back(name_from_uri(prefix));
        for (const auto& [face, cost] : hops) next_hops.push_back({face, cost});
    }
    self.call([&](Engine& engine) {
        management::NetworkRoutes routes = engine.management.network_routes();
        if (anew) routes.clear();
        for (const auto& [names, hops] : parts) {
            for (const wire::Name& name : names) routes.set(name, hops);
        }
    });
}

}  // namespace

void bind_management_of(nb::class_<NodeHandle>& node) {
    node.def("authorise_commands", &authorise_commands, "keys"_a, "localhop_rib"_a = false,
             "From now on management commands are obeyed that one of these keys has signed; with "
             "no keys, all that local programs sign, as at the start. `localhop_rib`: routes may "
             "be registered from one hop away, too, by the listed keys. Raises ValueError for a "
             "malformed key, and for `localhop_rib` without any key.")
        .def("notify_registrations", &notify_registrations, "event_fd"_a,
             "The eventfd becomes readable when programs have registered or unregistered prefixes "
             "here since the last `take_registrations`.")
        .def("take_registrations", &take_registrations, "limit"_a,
             "The prefixes that programs serve here, `limit` at most, and how many there are.")
        .def("set_network_routes", &set_network_routes, "served"_a, "anew"_a,
             "Prefixes and the (face, cost) by which each of them is served elsewhere in the "
             "network; no hops: nowhere. `anew`: all others are served nowhere. They have the "
             "origin `nlsr` in the RIB.");
}

}  // namespace innet::bindings
