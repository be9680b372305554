#include "switch_emulator/tables/dead_nonce_list.hpp"

#include <algorithm>
#include <bit>

namespace innet::tables {

namespace {
constexpr std::size_t kFirstBuckets = 8;
}  // namespace

DeadNonceList::DeadNonceList(std::size_t capacity)
    : most_buckets_(std::bit_ceil(std::max<std::size_t>(capacity / kPerBucket, 1))),
      buckets_(std::min(most_buckets_, kFirstBuckets)) {}

void DeadNonceList::grow() {
    std::vector<Bucket> old(2 * buckets_.size());
    old.swap(buckets_);
    for (const Bucket& bucket : old) {
        for (const std::uint64_t hash : bucket.newest_first) {
            if (hash == 0) break;
            *std::ranges::find(buckets_[place_of(hash)].newest_first, std::uint64_t{0}) = hash;
        }
    }
}

void DeadNonceList::add(wire::NameHash name, std::uint32_t nonce) {
    const std::uint64_t hash = mix(name, nonce);
    while (buckets_[place_of(hash)].full() && buckets_.size() < most_buckets_) grow();
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
