#pragma once
// Limits the memory that remote requesters can fill with objects of their choice.

#include <cstdint>

namespace innet {

class MemoryBudget {
  public:
    explicit MemoryBudget(std::uint64_t bytes) : bytes_(bytes) {}

    /// Sets the limit. Below the memory in use, `take` fails until enough is released.
    void resize(std::uint64_t bytes) { bytes_ = bytes; }
    bool is_full() const { return taken_ >= bytes_; }
    /// More than half of the limit is in use.
    bool is_half_full() const { return taken_ > bytes_ / 2; }

    /// False, and takes nothing, when fewer bytes are left.
    bool take(std::uint64_t bytes) {
        if (is_full() || bytes > bytes_ - taken_) return false;
        taken_ += bytes;
        return true;
    }
    void release(std::uint64_t bytes) { taken_ -= bytes < taken_ ? bytes : taken_; }

  private:
    std::uint64_t bytes_;
    std::uint64_t taken_ = 0;
};

}  // namespace innet
