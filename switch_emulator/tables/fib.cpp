#include "switch_emulator/tables/fib.hpp"

#include <algorithm>
#include <tuple>

namespace innet::tables {

void Fib::add(const wire::Name& prefix, FaceId face, std::uint32_t cost) {
    FibEntry& entry = entries_.at(prefix);
    erase_hop(entry, face);
    std::vector<NextHop>& hops = entry.next_hops;
    hops.push_back({face, cost});
    std::ranges::sort(hops, {}, [](const NextHop& hop) { return std::tuple(hop.cost, hop.face); });
    if (face >= next_hops_of_face_.size()) next_hops_of_face_.resize(face + std::size_t{1});
    ++next_hops_of_face_[face];
    ++next_hops_;
}

void Fib::remove(const wire::Name& prefix, FaceId face) {
    if (FibEntry* entry = entries_.find(prefix)) {
        erase_hop(*entry, face);
        if (entry->next_hops.empty()) entries_.erase(prefix);
    }
}

void Fib::remove_face(FaceId face) {
    if (next_hops_of(face) == 0) return;
    entries_.for_each([&](FibEntry& entry) { erase_hop(entry, face); });
    entries_.erase_if([](const FibEntry& entry) { return entry.next_hops.empty(); });
}

bool Fib::contains(const wire::Name& prefix, FaceId face) const {
    const FibEntry* entry = entries_.find(prefix);
    return entry != nullptr &&
           std::ranges::find(entry->next_hops, face, &NextHop::face) != entry->next_hops.end();
}

void Fib::erase_hop(FibEntry& entry, FaceId face) {
    const std::size_t erased =
        std::erase_if(entry.next_hops, [&](const NextHop& hop) { return hop.face == face; });
    if (erased != 0) next_hops_of_face_[face] -= erased;
    next_hops_ -= erased;
}

std::span<const NextHop> Fib::longest_prefix_match(const NamePrefixes& name) const {
    const FibEntry* entry = longest_prefix_entry(name);
    if (entry == nullptr) return {};
    return entry->next_hops;
}

}  // namespace innet::tables
