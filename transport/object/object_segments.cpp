#include "transport/object/object_segments.hpp"

#include <algorithm>
#include <utility>

namespace innet {

ObjectSegments::ObjectSegments(wire::NameView object, std::span<const std::uint8_t> bytes,
                               const Segmentation& segmentation, std::uint32_t virtual_scale,
                               PacketPool& pool)
    : namer_(object),
      bytes_(bytes),
      segmentation_(segmentation),
      virtual_scale_(virtual_scale),
      pool_(&pool) {}

SegmentFrame ObjectSegments::frame(std::uint64_t segment) {
    SegmentFrame frame;
    frame.content = bytes_.subspan(static_cast<std::size_t>(segmentation_.offset_of(segment)),
                                   static_cast<std::size_t>(segmentation_.size_of(segment)));
    wire::DataFields fields;
    fields.name = namer_.segment(segment);
    fields.final_segment = segmentation_.segments() - 1;
    fields.tensor_elements = bytes_.size();
    fields.signature_type = wire::SignatureType::kNull;
    frame.around = pool_->allocate(wire::encoded_data_size(fields, frame.content.size(), 0));
    frame.layout = wire::encode_data(fields, frame.content.size(), 0, frame.around.writable());
    return frame;
}

PacketRef ObjectSegments::packet(std::uint64_t segment) {
    SegmentFrame frame = this->frame(segment);
    std::ranges::copy(frame.content,
                      frame.around.writable().subspan(frame.layout.content_offset).begin());
    frame.around.set_virtual_bytes((virtual_scale_ - 1) * frame.content.size());
    return std::move(frame.around);
}

PacketRef ObjectSegments::lent_packet(std::uint64_t segment,
                                      const std::shared_ptr<const void>& lender) {
    SegmentFrame frame = this->frame(segment);
    frame.around.lend(frame.layout.content_offset, frame.content, lender);
    frame.around.set_virtual_bytes((virtual_scale_ - 1) * frame.content.size());
    return std::move(frame.around);
}

}  // namespace innet
