#pragma once
// The segments of an object: Data packets without a signature of their own, made from its bytes.

#include <cstdint>
#include <memory>
#include <span>

#include "transport/buffer/packet_ref.hpp"
#include "transport/publish/segment_name.hpp"
#include "transport/publish/segmentation.hpp"
#include "transport/security/batch_hasher.hpp"
#include "transport/security/segment_tagger.hpp"
#include "transport/wire/data.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// A segment's packet whose content is elsewhere.
struct SegmentFrame {
    PacketRef around;  ///< with space for the content, which is not filled in
    wire::DataLayout layout;
    std::span<const std::uint8_t> content;

    /// Frame and content must outlive them.
    security::PacketParts parts() const {
        const auto bytes = around.bytes();
        return {bytes.first(layout.content_offset), content,
                bytes.subspan(layout.content_offset + content.size())};
    }
    /// Of the whole packet; lives as long as `parts`.
    security::HashJob to_hash() const {
        const auto [head, middle, tail] = parts();
        return {{head, middle, tail}};
    }
};

class ObjectSegments {
  public:
    /// `bytes` are read by each call below; `pool` outlives this. Each byte stands for
    /// `virtual_scale`.
    ObjectSegments(wire::NameView object, std::span<const std::uint8_t> bytes,
                   const Segmentation& segmentation, std::uint32_t virtual_scale, PacketPool& pool);

    wire::NameView object() const { return namer_.tensor(); }
    const Segmentation& segmentation() const { return segmentation_; }
    std::span<const std::uint8_t> bytes() const { return bytes_; }
    PacketPool& pool() const { return *pool_; }

    /// A segment's packet, which holds a copy of its bytes.
    PacketRef packet(std::uint64_t segment);
    /// `packet` with a lazy copy, while `lender` keeps the bytes.
    PacketRef lent_packet(std::uint64_t segment, const std::shared_ptr<const void>& lender);
    /// The same without a copy.
    SegmentFrame frame(std::uint64_t segment);

  private:
    SegmentNamer namer_;
    std::span<const std::uint8_t> bytes_;
    Segmentation segmentation_;
    std::uint32_t virtual_scale_;
    PacketPool* pool_;
};

}  // namespace innet
