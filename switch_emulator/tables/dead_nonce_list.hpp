#pragma once
// Nonces of Interests that have left the PIT: one that still circles is recognised as a loop.

#include "switch_emulator/tables/fifo_hash_set.hpp"
#include "transport/wire/name.hpp"

namespace innet::tables {

/// Remembers the most recent (name, nonce) pairs as 64-bit hashes.
class DeadNonceList {
  public:
    /// At 250,000 Interests a second, some 60 ms: several times a loop's round trip inside a
    /// cluster.
    static constexpr std::size_t kDefaultCapacity = 16384;

    explicit DeadNonceList(std::size_t capacity = kDefaultCapacity) : hashes_(capacity) {}

    void add(wire::NameHash name, std::uint32_t nonce) { hashes_.insert(mix(name, nonce)); }
    bool contains(wire::NameHash name, std::uint32_t nonce) const {
        return hashes_.contains(mix(name, nonce));
    }
    std::size_t size() const { return hashes_.size(); }

  private:
    static std::uint64_t mix(wire::NameHash name, std::uint32_t nonce) {
        return (name ^ nonce) * 0xff51afd7ed558ccdULL;
    }

    FifoHashSet hashes_;
};

}  // namespace innet::tables
