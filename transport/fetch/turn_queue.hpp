#pragma once
// First in, first out, in memory that is kept: a std::deque allocates and frees a block for every
// few entries that pass through.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace innet {

class TurnQueue {
  public:
    bool empty() const { return size_ == 0; }

    void push(std::uint32_t entry) {
        if (size_ == ring_.size()) grow();
        ring_[(head_ + size_) & (ring_.size() - 1)] = entry;
        ++size_;
    }

    /// Of a queue that is not empty.
    std::uint32_t pop() {
        const std::uint32_t entry = ring_[head_];
        head_ = (head_ + 1) & (ring_.size() - 1);
        --size_;
        return entry;
    }

  private:
    static constexpr std::size_t kFirstCapacity = 16;

    void grow() {
        std::vector<std::uint32_t> larger(ring_.empty() ? kFirstCapacity : 2 * ring_.size());
        const std::size_t entries = size_;
        for (std::size_t i = 0; i < entries; ++i) larger[i] = pop();
        ring_ = std::move(larger);
        head_ = 0;
        size_ = entries;
    }

    std::vector<std::uint32_t> ring_;  ///< its size is a power of two
    std::size_t head_ = 0;
    std::size_t size_ = 0;
};

}  // namespace innet
