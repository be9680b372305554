#include "switch_emulator/management/rib.hpp"

#include <algorithm>

namespace innet::management {

namespace {

auto find_route(auto& routes, FaceId face, std::uint64_t origin) {
    return std::ranges::find_if(routes, [&](const RibRoute& route) {
        return route.face == face && route.origin == origin;
    });
}

bool captures(const std::vector<RibRoute>& routes) {
    return std::ranges::any_of(routes,
                               [](const RibRoute& route) { return (route.flags & kCapture) != 0; });
}

/// Of those routes that have all of `flags`: the cost of each face.
std::map<FaceId, std::uint32_t> least_costs(const std::vector<RibRoute>& routes,
                                            std::uint64_t flags) {
    std::map<FaceId, std::uint32_t> costs;
    for (const RibRoute& route : routes) {
        if ((route.flags & flags) != flags) continue;
        const auto [cost, is_new] = costs.try_emplace(route.face, route.cost);
        if (!is_new) cost->second = std::min(cost->second, route.cost);
    }
    return costs;
}

}  // namespace

void Rib::put(const wire::Name& prefix, const RibRoute& route) {
    Entry& entry = entries_[prefix];
    const auto known = find_route(entry.routes, route.face, route.origin);
    const bool is_new = known == entry.routes.end();
    const bool leads_elsewhere = is_new || known->cost != route.cost || known->flags != route.flags;
    if (is_new) {
        entry.routes.push_back(route);
        ++route_count_;
        prefixes_by_face_[route.face].insert(prefix);
        sink_.on_route_added(prefix, route);
    } else {
        if (known->expiry != kNever) {
            expiries_.erase({known->expiry, prefix, route.face, route.origin});
        }
        *known = route;
    }
    if (route.expiry != kNever) expiries_.insert({route.expiry, prefix, route.face, route.origin});
    if (leads_elsewhere) update_from(prefix);
}

bool Rib::remove(const wire::Name& prefix, FaceId face, std::uint64_t origin) {
    const auto entry = entries_.find(prefix);
    if (entry == entries_.end()) return false;
    const auto route = find_route(entry->second.routes, face, origin);
    if (route == entry->second.routes.end()) return false;
    erase(entry, route);
    update_from(prefix);
    return true;
}

void Rib::remove_face(FaceId face) {
    const auto known = prefixes_by_face_.find(face);
    if (known == prefixes_by_face_.end()) return;
    const std::set<wire::Name> prefixes = known->second;
    for (const wire::Name& prefix : prefixes) {
        const auto entry = entries_.find(prefix);
        std::vector<RibRoute>& routes = entry->second.routes;
        for (auto route = routes.begin(); route != routes.end();) {
            if (route->face != face) {
                ++route;
                continue;
            }
            const auto index = route - routes.begin();
            erase(entry, route);
            route = routes.begin() + index;
        }
        update_from(prefix);
    }
}

const RibRoute* Rib::find(const wire::Name& prefix, FaceId face, std::uint64_t origin) const {
    const auto entry = entries_.find(prefix);
    if (entry == entries_.end()) return nullptr;
    const auto route = find_route(entry->second.routes, face, origin);
    return route == entry->second.routes.end() ? nullptr : &*route;
}

std::span<const RibRoute> Rib::routes_of(const wire::Name& prefix) const {
    const auto entry = entries_.find(prefix);
    if (entry == entries_.end()) return {};
    return entry->second.routes;
}

void Rib::expire(TimePoint now) {
    while (!expiries_.empty() && std::get<TimePoint>(*expiries_.begin()) <= now) {
        const auto [expiry, prefix, face, origin] = *expiries_.begin();
        remove(prefix, face, origin);
    }
}

TimePoint Rib::next_expiry() const {
    return expiries_.empty() ? kNever : std::get<TimePoint>(*expiries_.begin());
}

void Rib::erase(Entries::iterator entry, std::vector<RibRoute>::iterator route) {
    const wire::Name& prefix = entry->first;
    std::vector<RibRoute>& routes = entry->second.routes;
    const FaceId face = route->face;
    sink_.on_route_removed(prefix, *route);
    if (route->expiry != kNever) expiries_.erase({route->expiry, prefix, face, route->origin});
    routes.erase(route);
    --route_count_;
    if (std::ranges::find(routes, face, &RibRoute::face) != routes.end()) return;
    const auto of_face = prefixes_by_face_.find(face);
    of_face->second.erase(prefix);
    if (of_face->second.empty()) prefixes_by_face_.erase(of_face);
}

void Rib::update_from(const wire::Name& prefix) {
    const wire::Name top = prefix;  // the entry may go, and its name with it
    auto entry = entries_.find(top);
    while (entry != entries_.end() && top.view().is_prefix_of(entry->first.view())) {
        install(entry->first, entry->second);
        entry = entry->second.routes.empty() ? entries_.erase(entry) : std::next(entry);
    }
}

Rib::NextHops Rib::next_hops_of(const wire::Name& prefix, const Entry& entry) const {
    if (entry.routes.empty()) return {};
    NextHops hops = least_costs(entry.routes, 0);
    wire::NameView shorter = prefix.view();
    const Entry* nearest = &entry;
    while (!captures(nearest->routes) && !shorter.empty()) {
        shorter = shorter.parent();
        const auto parent = entries_.find(wire::Name(shorter));
        if (parent == entries_.end()) continue;
        nearest = &parent->second;
        NextHops inherited = least_costs(nearest->routes, kChildInherit);
        hops.merge(inherited);  // what is there already came from nearer
    }
    return hops;
}

void Rib::install(const wire::Name& prefix, Entry& entry) {
    NextHops hops = next_hops_of(prefix, entry);
    for (const auto& [face, cost] : entry.installed) {
        if (!hops.contains(face)) sink_.remove_next_hop(prefix, face);
    }
    for (const auto& [face, cost] : hops) {
        const auto known = entry.installed.find(face);
        if (known == entry.installed.end() || known->second != cost) {
            sink_.add_next_hop(prefix, face, cost);
        }
    }
    entry.installed = std::move(hops);
}

}  // namespace innet::management
