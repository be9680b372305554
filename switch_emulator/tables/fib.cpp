#include "switch_emulator/tables/fib.hpp"

#include <algorithm>
#include <tuple>

namespace innet::tables {

FibEntry* Fib::find(const wire::Name& prefix) {
    const auto bucket = entries_.find(prefix.view().hash());
    if (bucket == entries_.end()) return nullptr;
    const auto entry = std::ranges::find(bucket->second, prefix, &FibEntry::prefix);
    return entry == bucket->second.end() ? nullptr : &*entry;
}

void Fib::add(const wire::Name& prefix, FaceId face, std::uint32_t cost) {
    FibEntry* entry = find(prefix);
    if (entry == nullptr) {
        entry = &entries_[prefix.view().hash()].emplace_back(FibEntry{prefix, {}});
        const std::size_t depth = prefix.view().size();
        if (depth < entries_by_depth_.size()) ++entries_by_depth_[depth];
    }
    std::erase_if(entry->next_hops, [&](const NextHop& hop) { return hop.face == face; });
    entry->next_hops.push_back({face, cost});
    std::ranges::sort(entry->next_hops, {},
                      [](const NextHop& hop) { return std::tuple(hop.cost, hop.face); });
}

void Fib::remove(const wire::Name& prefix, FaceId face) {
    if (FibEntry* entry = find(prefix)) {
        std::erase_if(entry->next_hops, [&](const NextHop& hop) { return hop.face == face; });
        drop_empty_entries();
    }
}

void Fib::remove_face(FaceId face) {
    for (auto& [hash, entries] : entries_) {
        for (FibEntry& entry : entries) {
            std::erase_if(entry.next_hops, [&](const NextHop& hop) { return hop.face == face; });
        }
    }
    drop_empty_entries();
}

void Fib::drop_empty_entries() {
    for (auto bucket = entries_.begin(); bucket != entries_.end();) {
        std::erase_if(bucket->second, [&](const FibEntry& entry) {
            if (!entry.next_hops.empty()) return false;
            const std::size_t depth = entry.prefix.view().size();
            if (depth < entries_by_depth_.size()) --entries_by_depth_[depth];
            return true;
        });
        bucket = bucket->second.empty() ? entries_.erase(bucket) : std::next(bucket);
    }
}

std::span<const NextHop> Fib::longest_prefix_match(const NamePrefixes& name) const {
    for (std::size_t depth = name.depth() + 1; depth-- > 0;) {
        if (entries_by_depth_[depth] == 0) continue;
        const auto bucket = entries_.find(name.hash(depth));
        if (bucket == entries_.end()) continue;
        for (const FibEntry& entry : bucket->second) {
            if (entry.prefix.view() == name.prefix(depth)) return entry.next_hops;
        }
    }
    return {};
}

}  // namespace innet::tables
