#include "switch_emulator/tables/fifo_hash_set.hpp"

#include <algorithm>
#include <bit>

namespace innet::tables {

namespace {
constexpr std::size_t kFirstCapacity = 32;
}  // namespace

FifoHashSet::FifoHashSet(std::size_t capacity)
    : capacity_(std::max<std::size_t>(capacity, 1)),
      ring_(std::min(capacity_, kFirstCapacity), kVacant),
      slots_(std::bit_ceil(2 * ring_.size()), kVacant) {}

void FifoHashSet::grow() {
    std::vector<std::uint64_t> members(std::min(2 * ring_.size(), capacity_), kVacant);
    members.swap(ring_);
    std::rotate(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(oldest_),
                members.end());
    slots_.assign(std::bit_ceil(2 * ring_.size()), kVacant);
    oldest_ = size_ = 0;
    for (const std::uint64_t hash : members) append(hash);
}

std::size_t FifoHashSet::home_of(std::uint64_t hash) const {
    return static_cast<std::size_t>(hash * 0x9e3779b97f4a7c15ULL >> 20) & (slots_.size() - 1);
}

std::size_t FifoHashSet::slot_of(std::uint64_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = home_of(hash);
    while (slots_[slot] != kVacant && slots_[slot] != hash) slot = (slot + 1) & mask;
    return slot;
}

bool FifoHashSet::contains(std::uint64_t hash) const {
    return slots_[slot_of(storable(hash))] != kVacant;
}

void FifoHashSet::insert(std::uint64_t hash) {
    hash = storable(hash);
    if (slots_[slot_of(hash)] == hash) return;
    if (size_ == capacity_) forget_oldest();
    if (size_ == ring_.size()) grow();
    append(hash);
}

/// A new member, for which there is room.
void FifoHashSet::append(std::uint64_t hash) {
    slots_[slot_of(hash)] = hash;
    const std::size_t end = oldest_ + size_;
    ring_[end < ring_.size() ? end : end - ring_.size()] = hash;
    ++size_;
}

void FifoHashSet::forget_oldest() {
    if (size_ == 0) return;
    erase_slot(slot_of(ring_[oldest_]));
    if (++oldest_ == ring_.size()) oldest_ = 0;
    --size_;
}

// Knuth, The Art of Computer Programming 3, section 6.4, algorithm R: deletion with linear probing
// moves later members of the run back, so that no tombstones pile up.
void FifoHashSet::erase_slot(std::size_t hole) {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t next = (hole + 1) & mask; slots_[next] != kVacant; next = (next + 1) & mask) {
        const std::size_t probe_length = (next - home_of(slots_[next])) & mask;
        if (probe_length >= ((next - hole) & mask)) {
            slots_[hole] = slots_[next];
            hole = next;
        }
    }
    slots_[hole] = kVacant;
}

}  // namespace innet::tables
