#pragma once
// Reference-counted packet memory. Payloads are shared between faces, tables and slots, never
// copied.
//
// Confined to one thread: a node, its endpoint and its driver share one pool and one thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace innet {

class PacketPool;

namespace detail {
/// One reference-counted buffer; lives in its pool's slab.
struct PacketBlock {
    PacketPool* pool = nullptr;
    std::uint8_t* bytes = nullptr;
    std::uint32_t capacity = 0;
    std::uint32_t references = 0;
    std::uint32_t size_class = 0;
    std::uint32_t virtual_bytes = 0;
    bool mac_due = false;
    /// Position of `lent` in the buffer, and its owner; empty: all bytes are in the buffer.
    std::uint32_t lent_offset = 0;
    std::span<const std::uint8_t> lent;
    std::shared_ptr<const void> lender;
};
}  // namespace detail

/// A share in a slice of a pool buffer. Copying it adds a reference; the buffer returns to its pool
/// with the last one.
class PacketRef {
  public:
    PacketRef() = default;
    PacketRef(const PacketRef& other) noexcept
        : block_(other.block_), offset_(other.offset_), size_(other.size_) {
        if (block_ != nullptr) ++block_->references;
    }
    PacketRef(PacketRef&& other) noexcept
        : block_(std::exchange(other.block_, nullptr)),
          offset_(std::exchange(other.offset_, 0)),
          size_(std::exchange(other.size_, 0)) {}
    PacketRef& operator=(const PacketRef& other) noexcept {
        PacketRef copy(other);
        swap(copy);
        return *this;
    }
    PacketRef& operator=(PacketRef&& other) noexcept {
        PacketRef taken(std::move(other));
        swap(taken);
        return *this;
    }
    ~PacketRef() {
        if (block_ != nullptr && --block_->references == 0) return_to_pool();
    }

    explicit operator bool() const { return block_ != nullptr; }
    std::span<const std::uint8_t> bytes() const {
        if (block_ == nullptr) return {};
        take_in();
        return {block_->bytes + offset_, size_};
    }
    /// The packet's bytes in order, as its contiguous parts.
    std::array<std::span<const std::uint8_t>, 3> parts() const;
    std::size_t size() const { return size_; }
    /// Writable while this is the only reference; empty otherwise.
    std::span<std::uint8_t> writable() {
        if (!unique()) return {};
        take_in();
        return {block_->bytes + offset_, size_};
    }
    bool unique() const { return block_ != nullptr && block_->references == 1; }
    /// A share of part of these bytes; `offset + size <= this->size()`.
    PacketRef slice(std::size_t offset, std::size_t size) const;
    /// The slice whose bytes `part` shows; `part` must lie inside `bytes()`.
    PacketRef slice_of(std::span<const std::uint8_t> part) const;
    /// Shortens the slice to its first `size` bytes; `size <= this->size()`.
    void truncate(std::size_t size);
    /// The bytes from `offset` on are those of `content`, which `lender` owns: the first
    /// access, or `take_in`, copies them into the buffer. Without a lender, the caller takes them
    /// in before they change. No effect unless `unique()`, or of no bytes.
    void lend(std::size_t offset, std::span<const std::uint8_t> content,
              std::shared_ptr<const void> lender);
    /// From now on nothing is lent.
    void take_in() const {
        if (block_ != nullptr && !block_->lent.empty()) copy_lent();
    }
    /// Bytes that the buffer represents beside those it stores: a simulation transfers tensors by
    /// their length, without memory for them. 0 unless set; shared by all slices of a buffer, and
    /// not copied with its bytes.
    std::size_t virtual_bytes() const { return block_ == nullptr ? 0 : block_->virtual_bytes; }
    /// No effect on an empty reference.
    void set_virtual_bytes(std::size_t bytes) {
        if (block_ != nullptr) block_->virtual_bytes = static_cast<std::uint32_t>(bytes);
    }
    /// Whether the packet in the buffer still lacks its MAC, which it needs to leave this machine.
    /// Shared by all slices of a buffer; false unless set.
    bool mac_due() const { return block_ != nullptr && block_->mac_due; }
    /// No effect on an empty reference.
    void set_mac_due() const {
        if (block_ != nullptr) block_->mac_due = true;
    }
    /// Writes the MAC of the packet in the buffer at `offset` of this slice, for all that share it.
    void put_mac(std::size_t offset, std::span<const std::uint8_t> mac) const;
    /// Size of the buffer that this slice keeps alive.
    std::size_t pinned_bytes() const { return block_ == nullptr ? 0 : block_->capacity; }

  private:
    friend class PacketPool;
    /// Adopts the block's first reference.
    PacketRef(detail::PacketBlock* block, std::size_t size) noexcept
        : block_(block), size_(static_cast<std::uint32_t>(size)) {}
    void swap(PacketRef& other) noexcept {
        std::swap(block_, other.block_);
        std::swap(offset_, other.offset_);
        std::swap(size_, other.size_);
    }
    void return_to_pool() noexcept;
    void copy_lent() const;

    detail::PacketBlock* block_ = nullptr;
    std::uint32_t offset_ = 0;
    std::uint32_t size_ = 0;
};

/// The largest buffer: a 64 KiB payload with its name, metadata and signature.
inline constexpr std::size_t kMaxPacketBytes = 66 * 1024;

/// Buffers in a few size classes, kept for reuse: no allocation per packet once warm.
/// Every PacketRef must be gone before its pool is (asserted in debug builds).
class PacketPool {
  public:
    PacketPool();
    ~PacketPool();
    PacketPool(const PacketPool&) = delete;
    PacketPool& operator=(const PacketPool&) = delete;

    /// A buffer of exactly `size` bytes, uninitialised. An empty PacketRef when `size` is above
    /// kMaxPacketBytes.
    PacketRef allocate(std::size_t size);
    PacketRef copy_of(std::span<const std::uint8_t> bytes);
    /// Copies the bytes, the number of virtual bytes and `mac_due` into a new buffer.
    PacketRef copy_of(const PacketRef& packet);

    /// Buffers that are referenced (whole ones, as `PacketRef::pinned_bytes` counts them).
    std::size_t bytes_in_use() const { return in_use_; }
    /// Memory taken from the system; the pool's destructor returns it.
    std::size_t bytes_reserved() const { return reserved_; }

  private:
    friend class PacketRef;
    void release(detail::PacketBlock* block) noexcept;
    class SizeClass;

    std::vector<std::unique_ptr<SizeClass>> classes_;
    std::size_t in_use_ = 0;
    std::size_t reserved_ = 0;
};

}  // namespace innet
