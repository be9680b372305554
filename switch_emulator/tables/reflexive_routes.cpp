#include "switch_emulator/tables/reflexive_routes.hpp"

#include <algorithm>

namespace innet::tables {

ReflexiveRoute* ReflexiveRoutes::find(wire::NameHash hash, wire::ByteView component) const {
    ReflexiveRoute* route = chains_.first(hash);
    while (route != nullptr &&
           !(route->hash == hash && std::ranges::equal(route->component, component))) {
        route = route->next_in_bucket;
    }
    return route;
}

ReflexiveRoute& ReflexiveRoutes::add(wire::NameHash hash, wire::ByteView component,
                                     PitEntry& trigger, FaceId face) {
    if (face >= by_face_.size()) by_face_.resize(face + std::size_t{1});
    ++by_face_[face];
    ReflexiveRoute& route = routes_.take();
    route = {nullptr, hash, component, &trigger, face};
    chains_.insert(route);
    return route;
}

void ReflexiveRoutes::remove(ReflexiveRoute& route) {
    --by_face_[route.face];
    chains_.erase(route);
    routes_.give(route);
}

}  // namespace innet::tables
