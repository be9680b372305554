#include "switch_emulator/tables/dead_nonce_list.hpp"

#include <algorithm>
#include <bit>

namespace innet::tables {

DeadNonceList::DeadNonceList(std::size_t capacity)
    : buckets_(std::bit_ceil(std::max<std::size_t>(capacity / kPerBucket, 1))) {}

void DeadNonceList::add(wire::NameHash name, std::uint32_t nonce) {
    const std::uint64_t hash = mix(name, nonce);
    auto& hashes = buckets_[place_of(hash)].newest_first;
    std::shift_right(hashes.begin(), hashes.end(), 1);
    hashes.front() = hash;
}

bool DeadNonceList::contains(wire::NameHash name, std::uint32_t nonce) const {
    const std::uint64_t hash = mix(name, nonce);
    const auto& hashes = buckets_[place_of(hash)].newest_first;
    return std::ranges::find(hashes, hash) != hashes.end();
}

}  // namespace innet::tables
