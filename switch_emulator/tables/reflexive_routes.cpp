#include "switch_emulator/tables/reflexive_routes.hpp"

#include <algorithm>

namespace innet::tables {

ReflexiveRoutes::ReflexiveRoutes() : buckets_(kBuckets, nullptr) {}

ReflexiveRoute* ReflexiveRoutes::find(wire::NameHash hash, wire::ByteView component) const {
    ReflexiveRoute* route = buckets_[hash & (kBuckets - 1)];
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
    ++size_;
    ReflexiveRoute& route = routes_.take();
    ReflexiveRoute*& first = bucket(hash);
    route = {first, hash, component, &trigger, face};
    first = &route;
    return route;
}

void ReflexiveRoutes::remove(ReflexiveRoute& route) {
    --by_face_[route.face];
    --size_;
    ReflexiveRoute** link = &bucket(route.hash);
    while (*link != &route) link = &(*link)->next_in_bucket;
    *link = route.next_in_bucket;
    routes_.give(route);
}

}  // namespace innet::tables
