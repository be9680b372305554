#pragma once
// Destination of a fetched object: the caller's memory, or memory allocated once the size is
// known.

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
#include "transport/security/sha256.hpp"

namespace innet {

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

    /// Reserves `size_bytes`, once. Nothing when memory or the budget does not suffice, the
    /// caller's memory has another size, or the memory already holds an object.
    std::optional<std::span<std::uint8_t>> reserve(std::uint64_t size_bytes) {
        if (std::exchange(reserved_, true)) return std::nullopt;
        if (budget_ && !budget_->take(size_bytes)) return std::nullopt;
        if (!given_) {
            owned_ = RecycledMemory::shared().take(static_cast<std::size_t>(size_bytes));
            if (!owned_) {
                if (budget_) budget_->release(size_bytes);
                return std::nullopt;
            }
            bytes_ = {owned_.get(), static_cast<std::size_t>(size_bytes)};
        }
        if (bytes_.size() != size_bytes) return std::nullopt;
        return bytes_;
    }
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

    void keep_root(std::span<const std::uint8_t> root) { root_.assign(root.begin(), root.end()); }
    /// The object's root manifest, a Data packet, once received.
    std::span<const std::uint8_t> root() const { return root_; }

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
    std::shared_ptr<MemoryBudget> budget_;  ///< null: unlimited
    RecycledMemory::Piece owned_;
    std::span<std::uint8_t> bytes_;
    bool given_ = false;
    bool claimed_ = false;
    bool reserved_ = false;
    std::atomic<bool> complete_ = false;
    OperationStatus status_ = OperationStatus::kCancelled;
    std::string detail_;
    std::vector<std::uint8_t> root_;
    bool root_is_proven_ = false;
    std::vector<security::Sha256Digest> digests_;
};

}  // namespace innet
