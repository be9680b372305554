#pragma once
// Where a fetched object lands: in memory of the caller's, or in memory made once its size is
// known.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "transport/buffer/recycled_memory.hpp"
#include "transport/object/object_room.hpp"
#include "transport/security/sha256.hpp"

namespace innet {

/// For one object: whoever serves it again holds on to these bytes.
class ObjectMemory {
  public:
    /// Memory is made by `reserve`.
    ObjectMemory() = default;
    /// The object must have just the size of `into`, which outlives this.
    explicit ObjectMemory(std::span<std::uint8_t> into) : bytes_(into), given_(true) {}

    /// Memory is made by `reserve`, as far as there is room.
    explicit ObjectMemory(std::shared_ptr<ObjectRoom> room) : room_(std::move(room)) {}

    /// Whether it is the caller's to fill: true once.
    bool claim() { return !std::exchange(claimed_, true); }
    /// Whoever claimed it has not used it.
    void release_claim() { claimed_ = false; }

    /// `size_bytes` of memory, once. Nothing when there are not so many, or no room for them, the
    /// caller's are fewer or more, or an object is here already.
    std::optional<std::span<std::uint8_t>> reserve(std::uint64_t size_bytes) {
        if (std::exchange(reserved_, true)) return std::nullopt;
        if (room_ && !room_->take(size_bytes)) return std::nullopt;
        if (!given_) {
            owned_ = RecycledMemory::shared().take(static_cast<std::size_t>(size_bytes));
            if (!owned_) {
                if (room_) room_->give_back(size_bytes);
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
    /// Whether all of the object is here and was seen to be right. Any thread may ask.
    bool is_complete() const { return complete_.load(); }

    void keep_root(std::span<const std::uint8_t> root) { root_.assign(root.begin(), root.end()); }
    /// The object's root manifest, a Data packet, once that has come.
    std::span<const std::uint8_t> root() const { return root_; }

    void keep_digests(std::vector<security::Sha256Digest> digests) {
        digests_ = std::move(digests);
    }
    /// The implicit digests of the object's segments, to which `bytes` were seen to belong once its
    /// fetch is done.
    std::span<const security::Sha256Digest> digests() const { return digests_; }

  private:
    std::shared_ptr<ObjectRoom> room_;  ///< null: as much as there is
    RecycledMemory::Piece owned_;
    std::span<std::uint8_t> bytes_;
    bool given_ = false;
    bool claimed_ = false;
    bool reserved_ = false;
    std::atomic<bool> complete_ = false;
    std::vector<std::uint8_t> root_;
    std::vector<security::Sha256Digest> digests_;
};

}  // namespace innet
