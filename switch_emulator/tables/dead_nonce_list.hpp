#pragma once
// Nonces of Interests that have left the PIT: one that still circles is recognised as a loop.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/wire/name.hpp"

namespace innet::tables {

/// Remembers the most recent (name, nonce) pairs as 64-bit hashes. A hash has one bucket, which is
/// a cache line and forgets its oldest hash first. The buckets are doubled, up to the capacity,
/// rather than that one of them forgets: they hold what they would if all had been there at first.
class DeadNonceList {
  public:
    /// At 250,000 Interests a second, some 60 ms: several times a loop's round trip inside a
    /// cluster.
    static constexpr std::size_t kDefaultCapacity = 16384;

    /// Room for about `capacity` pairs.
    explicit DeadNonceList(std::size_t capacity = kDefaultCapacity);

    void add(wire::NameHash name, std::uint32_t nonce);
    bool contains(wire::NameHash name, std::uint32_t nonce) const;

    std::size_t capacity() const { return most_buckets_ * kPerBucket; }

  private:
    static constexpr std::size_t kPerBucket = 8;

    struct alignas(64) Bucket {
        std::array<std::uint64_t, kPerBucket> newest_first{};  ///< 0: vacant

        bool full() const { return newest_first.back() != 0; }
    };

    void grow();

    static std::uint64_t mix(wire::NameHash name, std::uint32_t nonce) {
        const std::uint64_t hash = (name ^ nonce) * 0xff51afd7ed558ccdULL;
        return hash == 0 ? 1 : hash;
    }
    std::size_t place_of(std::uint64_t hash) const {
        return static_cast<std::size_t>(hash >> 32) & (buckets_.size() - 1);
    }

    std::size_t most_buckets_;
    std::vector<Bucket> buckets_;
};

}  // namespace innet::tables
