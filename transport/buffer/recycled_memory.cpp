#include "transport/buffer/recycled_memory.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace innet {

namespace {

/// Pieces of similar size are interchangeable. Small ones waste little, because there may be
/// many.
constexpr std::size_t kGranuleBytes = 4096;
constexpr std::size_t kSmallGranuleBytes = 64;

std::size_t rounded_up(std::size_t size_bytes) {
    const std::size_t granule =
        size_bytes < 16 * kGranuleBytes ? kSmallGranuleBytes : kGranuleBytes;
    return std::max<std::size_t>(1, (size_bytes + granule - 1) / granule) * granule;
}

}  // namespace

RecycledMemory& RecycledMemory::shared() {
    static RecycledMemory& memory = *new RecycledMemory;
    return memory;
}

RecycledMemory::Piece RecycledMemory::take(std::size_t size_bytes) {
    // A size that cannot be rounded is more than there is, too.
    if (size_bytes > PTRDIFF_MAX) return {};
    const std::size_t rounded = rounded_up(size_bytes);
    {
        const std::lock_guard lock(mutex_);
        const auto same = idle_.find(rounded);
        if (same != idle_.end() && !same->second.empty()) {
            std::unique_ptr<std::uint8_t[]> piece = std::move(same->second.back());
            same->second.pop_back();
            idle_bytes_ -= rounded;
            return Piece(piece.release(), {rounded});
        }
    }
    return Piece(new (std::nothrow) std::uint8_t[rounded], {rounded});
}

void RecycledMemory::give_back(std::uint8_t* piece, std::size_t size_bytes) {
    std::unique_ptr<std::uint8_t[]> owned(piece);
    decltype(idle_) freed;  // after the lock
    const std::lock_guard lock(mutex_);
    if (size_bytes > kMaxIdleBytes) return;
    if (idle_bytes_ + size_bytes > kMaxIdleBytes) {
        // Drops idle pieces of other sizes first, because they are no longer requested.
        auto same = idle_.extract(size_bytes);
        freed.swap(idle_);
        idle_bytes_ = same.empty() ? 0 : same.mapped().size() * size_bytes;
        if (!same.empty()) idle_.insert(std::move(same));
        if (idle_bytes_ + size_bytes > kMaxIdleBytes) return;
    }
    idle_[size_bytes].push_back(std::move(owned));
    idle_bytes_ += size_bytes;
}

std::size_t RecycledMemory::idle_bytes() const {
    const std::lock_guard lock(mutex_);
    return idle_bytes_;
}

}  // namespace innet
