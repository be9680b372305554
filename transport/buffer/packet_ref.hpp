#pragma once
// Reference-counted packet memory. Payloads are shared between faces, tables and slots, never copied.
//
// Confined to one thread: a node, its endpoint and its driver share one pool and one thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace innet {

class PacketPool;

namespace detail {
struct PacketBlock {
    PacketPool* pool = nullptr;
    std::uint32_t references = 0;
    std::uint8_t size_class = 0;
    std::span<std::uint8_t> bytes;
};
}  // namespace detail

/// A share in a slice of a pool buffer. Copying it adds a reference; the buffer returns to its pool with
/// the last one.
class PacketRef {
  public:
    PacketRef() = default;
    PacketRef(const PacketRef& other) noexcept;
    PacketRef(PacketRef&& other) noexcept;
    PacketRef& operator=(const PacketRef& other) noexcept;
    PacketRef& operator=(PacketRef&& other) noexcept;
    ~PacketRef();

    explicit operator bool() const { return block_ != nullptr; }
    std::span<const std::uint8_t> bytes() const;
    std::size_t size() const { return size_; }
    /// Writable while this is the only reference.
    std::span<std::uint8_t> writable();
    bool unique() const;
    /// A share of part of these bytes; `offset + size <= this->size()`.
    PacketRef slice(std::size_t offset, std::size_t size) const;
    /// The slice whose bytes `part` shows; `part` must lie inside `bytes()`.
    PacketRef slice_of(std::span<const std::uint8_t> part) const;
    /// Shortens the slice.
    void truncate(std::size_t size);
    /// Size of the buffer that this slice keeps alive.
    std::size_t pinned_bytes() const;

  private:
    friend class PacketPool;
    PacketRef(detail::PacketBlock* block, std::size_t offset, std::size_t size) noexcept;

    detail::PacketBlock* block_ = nullptr;
    std::uint32_t offset_ = 0;
    std::uint32_t size_ = 0;
};

/// Buffers in a few size classes, kept for reuse: no allocation per packet once warm.
/// Every PacketRef must be gone before its pool is.
class PacketPool {
  public:
    PacketPool();
    ~PacketPool();
    PacketPool(const PacketPool&) = delete;
    PacketPool& operator=(const PacketPool&) = delete;

    /// A buffer of exactly `size` bytes (at most 64 KiB), uninitialised.
    PacketRef allocate(std::size_t size);
    PacketRef copy_of(std::span<const std::uint8_t> bytes);

    std::size_t bytes_in_use() const { return in_use_; }
    std::size_t bytes_reserved() const { return reserved_; }

  private:
    friend class PacketRef;
    void release(detail::PacketBlock* block) noexcept;
    struct SizeClass;

    std::vector<std::unique_ptr<SizeClass>> classes_;
    std::size_t in_use_ = 0;
    std::size_t reserved_ = 0;
};

}  // namespace innet
