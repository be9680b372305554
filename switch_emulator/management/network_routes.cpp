#include "switch_emulator/management/network_routes.hpp"

#include <algorithm>
#include <vector>

namespace innet::management {

void NetworkRoutes::set(const wire::Name& prefix, std::span<const tables::NextHop> hops) {
    remove_all_but(prefix, hops);
    for (const tables::NextHop& hop : hops) {
        rib_.put(prefix, {.face = hop.face,
                          .origin = kNetworkOrigin,
                          .cost = hop.cost,
                          .flags = kCapture,
                          .expiry = kNever});
    }
}

void NetworkRoutes::clear() {
    std::vector<wire::Name> prefixes;
    rib_.for_each([&](const wire::Name& prefix, const std::vector<RibRoute>& routes) {
        if (std::ranges::any_of(routes, [this](const RibRoute& route) { return is_ours(route); }))
            prefixes.push_back(prefix);
    });
    for (const wire::Name& prefix : prefixes) remove_all_but(prefix, {});
}

// A program may run a routing protocol of its own, by the same origin, with other networks.
bool NetworkRoutes::is_ours(const RibRoute& route) const {
    return route.origin == kNetworkOrigin && !node_.face_options(route.face).foreign;
}

void NetworkRoutes::remove_all_but(const wire::Name& prefix,
                                   std::span<const tables::NextHop> hops) {
    std::vector<FaceId> gone;
    for (const RibRoute& route : rib_.routes_of(prefix)) {
        const bool stays =
            std::ranges::find(hops, route.face, &tables::NextHop::face) != hops.end();
        if (is_ours(route) && !stays) gone.push_back(route.face);
    }
    for (const FaceId face : gone) rib_.remove(prefix, face, kNetworkOrigin);
}

}  // namespace innet::management
