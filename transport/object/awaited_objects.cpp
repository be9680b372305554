#include "transport/object/awaited_objects.hpp"

#include <algorithm>
#include <utility>

namespace innet {

void AwaitedObjects::expect(const wire::Name& object) {
    Awaited& entry = awaited_[object.view().hash()];
    if (entry.object != object) entry = Awaited(object);
    entry.expected = true;
}

bool AwaitedObjects::expects(wire::NameView object) const {
    if (awaited_.empty()) return false;
    const auto found = awaited_.find(object.hash());
    return found != awaited_.end() && found->second.expected &&
           found->second.object.view() == object;
}

bool AwaitedObjects::wait(wire::NameView object, wire::NameView packet, TimePoint now,
                          TimePoint until) {
    if (awaited_.size() >= next_clearance_) forget_expired(now);
    Awaited& entry = awaited_[object.hash()];
    if (entry.object.view() != object) entry = Awaited(wire::Name(object));
    if (entry.until <= now) entry.packets.clear();
    const bool is_first = entry.packets.empty();
    entry.packets.try_emplace(packet.hash(), packet);
    entry.until = std::max(entry.until, until);
    return is_first;
}

std::vector<wire::Name> AwaitedObjects::take(wire::NameView object) {
    std::vector<wire::Name> packets;
    if (awaited_.empty()) return packets;
    const auto found = awaited_.find(object.hash());
    if (found == awaited_.end() || found->second.object.view() != object) return packets;
    for (auto& [hash, packet] : found->second.packets) packets.push_back(std::move(packet));
    awaited_.erase(found);
    return packets;
}

std::vector<wire::Name> AwaitedObjects::take_under(const wire::Name& prefix) {
    std::vector<wire::Name> packets;
    for (auto entry = awaited_.begin(); entry != awaited_.end();) {
        Awaited& awaited = entry->second;
        if (!prefix.view().is_prefix_of(awaited.object.view())) {
            ++entry;
            continue;
        }
        for (auto& [hash, packet] : awaited.packets) packets.push_back(std::move(packet));
        entry = awaited_.erase(entry);
    }
    return packets;
}

// Each look through all entries is paid by as many that came since the last.
void AwaitedObjects::forget_expired(TimePoint now) {
    std::erase_if(awaited_, [&](const auto& entry) {
        return !entry.second.expected && entry.second.until <= now;
    });
    next_clearance_ = std::max(kMinClearance, 2 * awaited_.size());
}

}  // namespace innet
