#pragma once
// Indexed binary heap of deadlines, which can be moved. Equal deadlines are ordered
// by index, so that a simulation does not depend on the order in which they were
// set.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/time.hpp"

namespace innet {

class DeadlineHeap {
  public:
    /// Adds the index `size() - 1`, without a deadline.
    void add();
    /// `kNever`: not due at all.
    void set(std::uint32_t index, TimePoint deadline);
    TimePoint deadline(std::uint32_t index) const { return deadlines_[index]; }
    /// `kNever` when nothing is due.
    TimePoint earliest() const { return order_.empty() ? kNever : deadlines_[order_.front()]; }
    /// Index of the earliest deadline, which must not be `kNever`.
    std::uint32_t first() const { return order_.front(); }

  private:
    static constexpr std::uint32_t kAbsent = ~std::uint32_t{0};

    bool before(std::uint32_t left, std::uint32_t right) const;
    void place(std::size_t position, std::uint32_t index);
    void rise(std::size_t position);
    void sink(std::size_t position);
    void remove(std::uint32_t index);

    std::vector<TimePoint> deadlines_;      ///< by index
    std::vector<std::uint32_t> positions_;  ///< by index: its place in `order_`, or kAbsent
    std::vector<std::uint32_t> order_;      ///< indexes, heap-ordered
};

}  // namespace innet
