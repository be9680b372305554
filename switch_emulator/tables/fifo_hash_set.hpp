#pragma once
// A set of 64-bit hashes that forgets its oldest member first. Its memory grows with its members,
// up to its capacity.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace innet::tables {

/// Open addressing with linear probing beside a ring that remembers the order of insertion.
class FifoHashSet {
  public:
    /// Room for `capacity` hashes (at least 1).
    explicit FifoHashSet(std::size_t capacity);

    bool contains(std::uint64_t hash) const;
    /// Adds `hash`; forgets the oldest one when the set is full. A known hash keeps its age.
    void insert(std::uint64_t hash);
    void forget_oldest();
    std::size_t size() const { return size_; }

  private:
    static constexpr std::uint64_t kVacant = 0;
    static std::uint64_t storable(std::uint64_t hash) { return hash == kVacant ? 1 : hash; }

    void grow();
    void append(std::uint64_t hash);
    std::size_t home_of(std::uint64_t hash) const;
    std::size_t slot_of(std::uint64_t hash) const;
    void erase_slot(std::size_t slot);

    std::size_t capacity_;
    std::vector<std::uint64_t> ring_;
    std::vector<std::uint64_t> slots_;
    std::size_t oldest_ = 0;
    std::size_t size_ = 0;
};

}  // namespace innet::tables
