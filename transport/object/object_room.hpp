#pragma once
// Memory that whoever owns it lets others fill, who choose how large their objects are.

#include <cstdint>

namespace innet {

class ObjectRoom {
  public:
    explicit ObjectRoom(std::uint64_t bytes) : bytes_(bytes) {}

    /// Fewer than are taken already: nothing more is taken until so many are given back.
    void resize(std::uint64_t bytes) { bytes_ = bytes; }
    bool is_full() const { return taken_ >= bytes_; }
    /// More is taken than is left.
    bool is_half_full() const { return taken_ > bytes_ / 2; }

    /// False, and nothing is taken, when there are not so many.
    bool take(std::uint64_t bytes) {
        if (is_full() || bytes > bytes_ - taken_) return false;
        taken_ += bytes;
        return true;
    }
    void give_back(std::uint64_t bytes) { taken_ -= bytes < taken_ ? bytes : taken_; }

  private:
    std::uint64_t bytes_;
    std::uint64_t taken_ = 0;
};

}  // namespace innet
