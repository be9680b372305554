#pragma once
// Memory for large objects. The system hands out fresh memory page by page, each at its first
// touch, which can take as long as all the rest of an object's transfer: what was given back is
// used again.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace innet {

/// Any thread may take and give back.
class RecycledMemory {
  public:
    struct GiveBack {
        std::size_t size_bytes = 0;
        void operator()(std::uint8_t* piece) const { shared().give_back(piece, size_bytes); }
    };
    using Piece = std::unique_ptr<std::uint8_t[], GiveBack>;

    /// The process's own. It is never destroyed, since pieces may outlive everything else.
    static RecycledMemory& shared();

    /// At least so many bytes, uninitialised; null when there is no memory.
    Piece take(std::size_t size_bytes);

    /// Bytes that wait to be used again: at most `kMaxIdleBytes`.
    std::size_t idle_bytes() const;

    /// Blocks that a program has just let go of, for those that it gets next.
    static constexpr std::size_t kMaxIdleBytes = std::size_t{64} << 20U;

  private:
    void give_back(std::uint8_t* piece, std::size_t size_bytes);

    mutable std::mutex mutex_;
    std::unordered_map<std::size_t, std::vector<std::unique_ptr<std::uint8_t[]>>> idle_;
    std::size_t idle_bytes_ = 0;
};

}  // namespace innet
