#include "transport/object/awaited_objects.hpp"

#include <algorithm>
#include <utility>

namespace innet {

void AwaitedObjects::expect(const wire::Name& object) { entry_of(object.view()).expected = true; }

bool AwaitedObjects::expects(wire::NameView object) const {
    const Awaited* entry = find(object);
    return entry != nullptr && entry->expected;
}

bool AwaitedObjects::accepts_draft(wire::NameView object) const {
    const Awaited* entry = find(object);
    return entry == nullptr || !entry->wants_signature;
}

void AwaitedObjects::want_signature(wire::NameView object) {
    entry_of(object).wants_signature = true;
}

const AwaitedObjects::Awaited* AwaitedObjects::find(wire::NameView object) const {
    if (awaited_.empty()) return nullptr;
    const auto found = awaited_.find(object.hash());
    const bool is_there = found != awaited_.end() && found->second.object.view() == object;
    return is_there ? &found->second : nullptr;
}

bool AwaitedObjects::wait(wire::NameView object, wire::NameView packet, TimePoint now,
                          TimePoint until) {
    if (awaited_.size() >= next_clearance_) forget_expired(now);
    Awaited& entry = entry_of(object);
    if (entry.until <= now) clear_packets(entry);
    const bool is_first = entry.packets.empty();
    entry.until = std::max(entry.until, until);
    const wire::NameHash key = packet.hash();
    if (entry.packets.contains(key) || !make_room(entry)) return is_first;
    if (is_first) entry.turn = turns_.insert(turns_.end(), object.hash());
    entry.packets.try_emplace(key, packet);
    ++packets_;
    return is_first;
}

void AwaitedObjects::forget(wire::NameView object, wire::NameView packet) {
    const auto found = awaited_.find(object.hash());
    if (found == awaited_.end() || found->second.object.view() != object) return;
    Awaited& entry = found->second;
    if (entry.packets.erase(packet.hash()) == 0) return;
    --packets_;
    if (!entry.packets.empty()) return;
    turns_.erase(entry.turn);
    entry.wants_signature = false;
    if (!entry.expected) awaited_.erase(found);
}

std::vector<wire::Name> AwaitedObjects::take(wire::NameView object) {
    std::vector<wire::Name> packets;
    if (awaited_.empty()) return packets;
    const auto found = awaited_.find(object.hash());
    if (found == awaited_.end() || found->second.object.view() != object) return packets;
    move_packets(found->second, packets);
    awaited_.erase(found);
    return packets;
}

std::vector<wire::Name> AwaitedObjects::take_under(const wire::Name& prefix) {
    std::vector<wire::Name> packets;
    for (auto entry = awaited_.begin(); entry != awaited_.end();) {
        if (!prefix.view().is_prefix_of(entry->second.object.view())) {
            ++entry;
            continue;
        }
        move_packets(entry->second, packets);
        entry = awaited_.erase(entry);
    }
    return packets;
}

AwaitedObjects::Awaited& AwaitedObjects::entry_of(wire::NameView object) {
    Awaited& entry = awaited_[object.hash()];
    if (entry.object.view() != object) {
        clear_packets(entry);
        entry = Awaited(wire::Name(object));
    }
    return entry;
}

void AwaitedObjects::clear_packets(Awaited& entry) {
    entry.wants_signature = false;
    if (entry.packets.empty()) return;
    packets_ -= entry.packets.size();
    turns_.erase(entry.turn);
    entry.packets.clear();
}

void AwaitedObjects::move_packets(Awaited& entry, std::vector<wire::Name>& into) {
    for (auto& [hash, packet] : entry.packets) into.push_back(std::move(packet));
    clear_packets(entry);
}

// Evicts the oldest entry instead of rejecting the new one: a peer that repeatedly connects,
// requests and disconnects must not block the entries of other requesters.
bool AwaitedObjects::make_room(const Awaited& added) {
    if (packets_ < kMaxPackets) return true;
    const auto oldest = awaited_.find(turns_.front());
    if (&oldest->second == &added) return false;
    clear_packets(oldest->second);
    if (!oldest->second.expected) awaited_.erase(oldest);
    return true;
}

// Amortised: a scan follows at least as many insertions as it visits entries.
void AwaitedObjects::forget_expired(TimePoint now) {
    for (auto entry = awaited_.begin(); entry != awaited_.end();) {
        if (entry->second.expected || entry->second.until > now) {
            ++entry;
            continue;
        }
        clear_packets(entry->second);
        entry = awaited_.erase(entry);
    }
    next_clearance_ = std::max(kMinClearance, 2 * awaited_.size());
}

}  // namespace innet
