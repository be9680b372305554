#pragma once
// Recycles memory of large objects. Fresh memory costs a page fault
// per page, which can take as long as the rest of an object's
// transfer.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "transport/priority_mutex.hpp"

namespace innet {

/// Any thread may take and give back.
class RecycledMemory {
  public:
    struct GiveBack {
        std::size_t size_bytes = 0;
        void operator()(std::uint8_t* piece) const { shared().give_back(piece, size_bytes); }
    };
    using Piece = std::unique_ptr<std::uint8_t[], GiveBack>;

    /// The process-wide instance. It is never destroyed, because pieces may outlive static objects.
    static RecycledMemory& shared();

    /// At least `size_bytes` bytes, uninitialised; null when memory is exhausted.
    Piece take(std::size_t size_bytes);

    /// Bytes that wait to be used again: at most `kMaxIdleBytes`.
    std::size_t idle_bytes() const;

    /// Limit of idle memory that is kept for reuse.
    static constexpr std::size_t kMaxIdleBytes = std::size_t{64} << 20U;

  private:
    void give_back(std::uint8_t* piece, std::size_t size_bytes);

    mutable PriorityMutex mutex_;
    std::unordered_map<std::size_t, std::vector<std::unique_ptr<std::uint8_t[]>>> idle_;
    std::size_t idle_bytes_ = 0;
};

}  // namespace innet
