#include "switch_emulator/tables/fib.hpp"

#include <algorithm>
#include <tuple>

namespace innet::tables {

void Fib::add(const wire::Name& prefix, FaceId face, std::uint32_t cost) {
    std::vector<NextHop>& hops = entries_.at(prefix).next_hops;
    std::erase_if(hops, [&](const NextHop& hop) { return hop.face == face; });
    hops.push_back({face, cost});
    std::ranges::sort(hops, {}, [](const NextHop& hop) { return std::tuple(hop.cost, hop.face); });
}

void Fib::remove(const wire::Name& prefix, FaceId face) {
    if (FibEntry* entry = entries_.find(prefix)) {
        std::erase_if(entry->next_hops, [&](const NextHop& hop) { return hop.face == face; });
        if (entry->next_hops.empty()) entries_.erase(prefix);
    }
}

void Fib::remove_face(FaceId face) {
    entries_.for_each([&](FibEntry& entry) {
        std::erase_if(entry.next_hops, [&](const NextHop& hop) { return hop.face == face; });
    });
    drop_empty_entries();
}

void Fib::drop_empty_entries() {
    entries_.erase_if([](const FibEntry& entry) { return entry.next_hops.empty(); });
}

std::span<const NextHop> Fib::longest_prefix_match(const NamePrefixes& name) const {
    const FibEntry* entry = longest_prefix_entry(name);
    if (entry == nullptr) return {};
    return entry->next_hops;
}

}  // namespace innet::tables
