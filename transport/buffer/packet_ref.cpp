#include "transport/buffer/packet_ref.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace innet {

namespace {

// Interests and Nacks; Data towards foreign clients; jumbo segments; the largest datagram.
constexpr std::array<std::size_t, 4> kClassBytes = {256, 2048, 9216, kMaxPacketBytes};
constexpr std::size_t kFirstSlabBlocks = 8;
constexpr std::size_t kMaxSlabBytes = 1024 * 1024;

}  // namespace

PacketRef PacketRef::slice(std::size_t offset, std::size_t size) const {
    assert(offset <= size_ && size <= size_ - offset);
    PacketRef part(*this);
    part.offset_ += static_cast<std::uint32_t>(offset);
    part.size_ = static_cast<std::uint32_t>(size);
    return part;
}

PacketRef PacketRef::slice_of(std::span<const std::uint8_t> part) const {
    if (part.empty()) return slice(0, 0);
    return slice(static_cast<std::size_t>(part.data() - bytes().data()), part.size());
}

void PacketRef::truncate(std::size_t size) {
    assert(size <= size_);
    size_ = static_cast<std::uint32_t>(size);
}

std::array<std::span<const std::uint8_t>, 3> PacketRef::parts() const {
    const bool is_whole = block_ != nullptr && !block_->lent.empty() &&
                          offset_ <= block_->lent_offset &&
                          block_->lent_offset + block_->lent.size() <= offset_ + size_;
    if (!is_whole) return {bytes()};
    const std::span<const std::uint8_t> buffer(block_->bytes + offset_, size_);
    const std::size_t head = block_->lent_offset - offset_;
    return {buffer.first(head), block_->lent, buffer.subspan(head + block_->lent.size())};
}

void PacketRef::lend(std::size_t offset, std::span<const std::uint8_t> content,
                     std::shared_ptr<const void> lender) {
    assert(offset <= size_ && content.size() <= size_ - offset);
    if (!unique() || content.empty()) return;
    take_in();
    block_->lent_offset = offset_ + static_cast<std::uint32_t>(offset);
    block_->lent = content;
    block_->lender = std::move(lender);
}

void PacketRef::put_mac(std::size_t offset, std::span<const std::uint8_t> mac) const {
    assert(offset <= size_ && mac.size() <= size_ - offset);
    const std::size_t begin = offset_ + offset;
    const std::size_t lent_end = block_->lent_offset + block_->lent.size();
    if (begin < lent_end && block_->lent_offset < begin + mac.size()) take_in();
    std::memcpy(block_->bytes + offset_ + offset, mac.data(), mac.size());
    block_->mac_due = false;
}

void PacketRef::copy_lent() const {
    std::memcpy(block_->bytes + block_->lent_offset, block_->lent.data(), block_->lent.size());
    block_->lent = {};
    block_->lender.reset();
}

void PacketRef::return_to_pool() noexcept { block_->pool->release(block_); }

/// Buffers of one size: slabs that grow, and a stack of the free blocks.
class PacketPool::SizeClass {
  public:
    SizeClass(PacketPool& pool, std::size_t index) : pool_(pool), index_(index) {}

    detail::PacketBlock* take() {
        if (free_.empty()) grow();
        detail::PacketBlock* block = free_.back();
        free_.pop_back();
        return block;
    }

    void put(detail::PacketBlock* block) noexcept { free_.push_back(block); }

  private:
    struct Slab {
        std::unique_ptr<std::uint8_t[]> bytes;
        std::unique_ptr<detail::PacketBlock[]> blocks;
    };

    /// A slab twice as large as the one before, up to a limit: small pools stay small.
    void grow() {
        const std::size_t block_bytes = kClassBytes[index_];
        const std::size_t most = std::max(kFirstSlabBlocks, kMaxSlabBytes / block_bytes);
        const std::size_t count = std::clamp(total_, kFirstSlabBlocks, most);
        Slab slab{std::make_unique_for_overwrite<std::uint8_t[]>(count * block_bytes),
                  std::make_unique<detail::PacketBlock[]>(count)};
        free_.reserve(total_ + count);  // so that `put` never allocates
        for (std::size_t i = 0; i < count; ++i) {
            slab.blocks[i].pool = &pool_;
            slab.blocks[i].bytes = slab.bytes.get() + i * block_bytes;
            slab.blocks[i].capacity = static_cast<std::uint32_t>(block_bytes);
            slab.blocks[i].size_class = static_cast<std::uint32_t>(index_);
            free_.push_back(&slab.blocks[i]);
        }
        slabs_.push_back(std::move(slab));
        total_ += count;
        pool_.reserved_ += count * block_bytes;
    }

    PacketPool& pool_;
    std::size_t index_;
    std::size_t total_ = 0;
    std::vector<Slab> slabs_;
    std::vector<detail::PacketBlock*> free_;
};

PacketPool::PacketPool() {
    for (std::size_t i = 0; i < kClassBytes.size(); ++i) {
        classes_.push_back(std::make_unique<SizeClass>(*this, i));
    }
}

PacketPool::~PacketPool() { assert(in_use_ == 0 && "a PacketRef outlives its pool"); }

PacketRef PacketPool::allocate(std::size_t size) {
    const auto fitting = std::lower_bound(kClassBytes.begin(), kClassBytes.end(), size);
    if (fitting == kClassBytes.end()) return {};
    auto* block = classes_[static_cast<std::size_t>(fitting - kClassBytes.begin())]->take();
    block->references = 1;
    block->virtual_bytes = 0;
    block->mac_due = false;
    in_use_ += block->capacity;
    return PacketRef(block, size);
}

PacketRef PacketPool::copy_of(std::span<const std::uint8_t> bytes) {
    PacketRef packet = allocate(bytes.size());
    if (packet && !bytes.empty()) std::memcpy(packet.writable().data(), bytes.data(), bytes.size());
    return packet;
}

PacketRef PacketPool::copy_of(const PacketRef& packet) {
    PacketRef copy = copy_of(packet.bytes());
    copy.set_virtual_bytes(packet.virtual_bytes());
    if (packet.mac_due()) copy.set_mac_due();
    return copy;
}

void PacketPool::release(detail::PacketBlock* block) noexcept {
    in_use_ -= block->capacity;
    block->lent = {};
    block->lender.reset();
    classes_[block->size_class]->put(block);
}

}  // namespace innet
