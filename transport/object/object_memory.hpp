#pragma once
// Destination of a fetched object: the caller's memory, or memory allocated once the size is
// known.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/buffer/recycled_memory.hpp"
#include "transport/endpoint/operation.hpp"
#include "transport/object/memory_budget.hpp"
#include "transport/security/manifest.hpp"
#include "transport/security/sha256.hpp"

namespace innet {

/// Memory of a kept object beside its bytes and its root: names, entries in tables and the records
/// of the application. Measured (tests/kv/test_small_blocks.py).
inline constexpr std::uint64_t kBookkeepingBytes = 3072;

/// Memory of one object, shared with publications that serve it again.
class ObjectMemory {
  public:
    /// `reserve` allocates memory.
    ObjectMemory() = default;
    /// The object must have exactly the size of `into`, which must outlive this.
    explicit ObjectMemory(std::span<std::uint8_t> into) : bytes_(into), given_(true) {}

    /// `reserve` allocates memory within the budget.
    explicit ObjectMemory(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}

    /// Claims the memory for one fetch: true once.
    bool claim() { return !std::exchange(claimed_, true); }

    /// Reserves `size_bytes` for the object of a root manifest, once, and keeps the root. Where the
    /// root has the object `within` it, its bytes are there. False when memory or the budget does
    /// not suffice, the caller's memory has another size, or the memory already holds an object.
    [[nodiscard]] bool reserve(std::uint64_t size_bytes, std::span<const std::uint8_t> root,
                               const std::optional<security::PacketRange>& within) {
        if (std::exchange(reserved_, true)) return false;
        if (given_ && bytes_.size() != size_bytes) return false;
        const std::uint64_t charge = size_bytes + root.size() + kBookkeepingBytes;
        if (budget_ && !budget_->take(charge)) return false;
        keep_root(root, within ? within->offset : 0);
        if (!given_ && !take_bytes(static_cast<std::size_t>(size_bytes), within)) {
            if (budget_) budget_->release(charge);
            return false;
        }
        if (given_ && within) std::ranges::copy(within_root(*within), bytes_.begin());
        charge_ = charge;
        return true;
    }
    /// Bytes that the object counts for in its budget; 0: no memory is reserved.
    std::uint64_t charge() const { return charge_; }
    /// The object, once its fetch is done.
    std::span<std::uint8_t> bytes() const { return bytes_; }
    bool is_given() const { return given_; }

    void set_complete() { complete_.store(true); }
    /// Whether the object is complete and verified. Thread-safe.
    bool is_complete() const { return complete_.load(); }

    /// How the fetch of one of several objects ended; read them after the completion of all.
    void set_end(OperationStatus status, std::string detail) {
        status_ = status;
        detail_ = std::move(detail);
    }
    OperationStatus status() const { return status_; }
    const std::string& detail() const { return detail_; }

    /// The byte at `aligned` is aligned as those of other objects.
    void keep_root(std::span<const std::uint8_t> root, std::size_t aligned = 0) {
        root_start_ = (kAlignment - aligned % kAlignment) % kAlignment;
        root_.resize(root_start_ + root.size());
        std::ranges::copy(root, root_.begin() + static_cast<std::ptrdiff_t>(root_start_));
    }
    /// The object's root manifest, a Data packet, once received.
    std::span<const std::uint8_t> root() const { return std::span(root_).subspan(root_start_); }

    /// A holder of the objects' key vouches for every byte of the root, its signature included.
    void set_root_proven() { root_is_proven_ = true; }
    bool root_is_proven() const { return root_is_proven_; }

    void keep_digests(std::vector<security::Sha256Digest> digests) {
        digests_ = std::move(digests);
    }
    /// The verified implicit digests of the object's segments, once its fetch is
    /// done.
    std::span<const security::Sha256Digest> digests() const { return digests_; }

  private:
    static constexpr std::size_t kAlignment = alignof(std::max_align_t);

    std::span<std::uint8_t> within_root(const security::PacketRange& range) {
        return std::span(root_).subspan(root_start_ + range.offset, range.size);
    }
    bool take_bytes(std::size_t size, const std::optional<security::PacketRange>& within) {
        if (within) {
            bytes_ = within_root(*within);
            return true;
        }
        owned_ = RecycledMemory::shared().take(size);
        if (owned_) bytes_ = {owned_.get(), size};
        return owned_ != nullptr;
    }

    std::shared_ptr<MemoryBudget> budget_;  ///< null: unlimited
    RecycledMemory::Piece owned_;
    std::span<std::uint8_t> bytes_;
    bool given_ = false;
    bool claimed_ = false;
    bool reserved_ = false;
    std::atomic<bool> complete_ = false;
    OperationStatus status_ = OperationStatus::kCancelled;
    std::string detail_;
    std::vector<std::uint8_t> root_;  ///< from `root_start_` on
    std::size_t root_start_ = 0;
    std::uint64_t charge_ = 0;
    bool root_is_proven_ = false;
    std::vector<security::Sha256Digest> digests_;
};

}  // namespace innet
