#pragma once
// Where a fetched object lands: in memory of the caller's, or in memory made once its size is
// known.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "transport/buffer/recycled_memory.hpp"
#include "transport/security/sha256.hpp"

namespace innet {

class ObjectMemory {
  public:
    /// Memory is made by `reserve`.
    ObjectMemory() = default;
    /// The object must have just the size of `into`, which outlives this.
    explicit ObjectMemory(std::span<std::uint8_t> into) : bytes_(into), given_(true) {}

    /// `size_bytes` of memory, or nothing when there are not so many, or the caller's are fewer or
    /// more.
    std::optional<std::span<std::uint8_t>> reserve(std::uint64_t size_bytes) {
        if (!given_) {
            owned_ = RecycledMemory::shared().take(static_cast<std::size_t>(size_bytes));
            if (!owned_) return std::nullopt;
            bytes_ = {owned_.get(), static_cast<std::size_t>(size_bytes)};
        }
        if (bytes_.size() != size_bytes) return std::nullopt;
        return bytes_;
    }
    /// The object, once its fetch is done.
    std::span<std::uint8_t> bytes() const { return bytes_; }
    bool is_given() const { return given_; }

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
    RecycledMemory::Piece owned_;
    std::span<std::uint8_t> bytes_;
    bool given_ = false;
    std::vector<std::uint8_t> root_;
    std::vector<security::Sha256Digest> digests_;
};

}  // namespace innet
