#include "transport/publish/publication.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "transport/security/late_mac.hpp"
#include "transport/wire/text.hpp"

namespace innet {

namespace {

void copy(wire::ByteView from, std::span<std::uint8_t> to) {
    std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

PacketRef make_tensor_error(wire::NameView name, wire::TensorErrorCode code,
                            const std::string& text, PacketPool& pool, security::Signer& signer) {
    wire::DataFields fields;
    fields.name = name;
    fields.tensor_error = code;
    fields.signature_type = signer.type();
    fields.key_name = signer.key_name();
    const std::string_view kept = wire::cut_text(text, wire::kMaxErrorText);
    const wire::ByteView content(reinterpret_cast<const std::uint8_t*>(kept.data()), kept.size());
    PacketRef packet =
        pool.allocate(wire::encoded_data_size(fields, content.size(), signer.signature_size()));
    if (!packet) return {};
    const auto bytes = packet.writable();
    const wire::DataLayout layout =
        wire::encode_data(fields, content.size(), signer.signature_size(), bytes);
    copy(content, bytes.subspan(layout.content_offset));
    return security::sign_or_defer(packet, layout, signer) ? packet : PacketRef{};
}

Publication::Publication(const wire::Name& name, std::span<const std::uint8_t> tensor,
                         Segmentation segmentation, std::span<const std::uint64_t> segment_ends,
                         std::uint64_t tensor_elements, std::string description,
                         std::string earlier_calls, std::uint32_t virtual_scale, PacketPool& pool,
                         std::shared_ptr<security::Signer> signer)
    : namer_(name.view()),
      tensor_(tensor),
      segmentation_(segmentation),
      segment_ends_(segment_ends),
      tensor_elements_(tensor_elements),
      description_(std::move(description)),
      earlier_calls_(std::move(earlier_calls)),
      virtual_scale_(virtual_scale),
      pool_(pool),
      signer_(std::move(signer)),
      segments_(static_cast<std::size_t>(segmentation.segments())) {}

PacketRef Publication::packet(std::uint64_t segment, bool signed_for_network) {
    if (aborted_) {
        return make_tensor_error(namer_.segment(segment), wire::TensorErrorCode::kAborted,
                                 abort_reason_, pool_, *signer_);
    }
    if (segment < released_) return {};
    retain(segment);
    Segment& entry = segments_[static_cast<std::size_t>(segment)];
    if (signed_for_network && !entry.is_signed && !sign(entry)) return {};
    return entry.packet;
}

void Publication::retain(std::uint64_t segment) {
    if (aborted_ || segment < released_) return;  // it is gone
    Segment& entry = segments_[static_cast<std::size_t>(segment)];
    if (entry.packet) return;
    const std::span<const std::uint8_t> content = bytes_of(segment);
    wire::DataFields fields;
    fields.name = namer_.segment(segment);
    fields.final_segment = segments_.size() - 1;
    fields.tensor_elements = tensor_elements_;
    fields.earlier_calls = wire::bytes_of(earlier_calls_);
    if (received_ > 0) fields.segments_received = received_;
    fields.signature_type = signer_->type();
    fields.key_name = signer_->key_name();
    const std::size_t signature_size = signer_->signature_size();
    entry.packet = pool_.allocate(wire::encoded_data_size(fields, content.size(), signature_size));
    entry.packet.set_virtual_bytes((virtual_scale_ - 1) * content.size());
    const auto bytes = entry.packet.writable();
    const wire::DataLayout layout =
        wire::encode_data(fields, content.size(), signature_size, bytes);
    if (security::signs_late(*signer_)) {
        entry.is_signed = security::sign_or_defer(entry.packet, layout, *signer_);
    } else {
        std::ranges::fill(bytes.subspan(layout.signature_offset, layout.signature_size),
                          std::uint8_t{0});
    }
    if (lends_) {
        entry.packet.lend(layout.content_offset, content, nullptr);
    } else {
        copy(content, bytes.subspan(layout.content_offset));
    }
    entry.signed_offset = static_cast<std::uint32_t>(layout.signed_offset);
    entry.signed_size = static_cast<std::uint32_t>(layout.signed_size);
    entry.signature_offset = static_cast<std::uint32_t>(layout.signature_offset);
    retained_bytes_ += entry.packet.pinned_bytes();
}

void Publication::on_sum_received(std::uint64_t segment, std::uint64_t by_all) {
    if (aborted_) return;
    segments_[static_cast<std::size_t>(segment)].has_sum = true;
    while (received_ < segments_.size() && segments_[static_cast<std::size_t>(received_)].has_sum) {
        ++received_;
    }
    for (const std::uint64_t end = std::min(by_all, received_); released_ < end; ++released_) {
        release(segments_[static_cast<std::size_t>(released_)]);
    }
}

void Publication::release(Segment& segment) {
    if (!segment.packet) return;
    retained_bytes_ -= segment.packet.pinned_bytes();
    if (!segment.packet.unique()) segment.packet.take_in();  // the tensor may change before it ends
    segment.packet = PacketRef();
}

bool Publication::take_turn_ahead(std::uint64_t segment) {
    if (aborted_ || !ahead_ || segment < released_) return false;
    Sent& sent = segments_[static_cast<std::size_t>(segment)].sent;
    if (sent != Sent::kNot || !ahead_->take_turn()) return false;
    sent = Sent::kAhead;
    return true;
}

void Publication::on_requested(std::uint64_t segment) {
    if (aborted_) return;
    Sent& sent = segments_[static_cast<std::size_t>(segment)].sent;
    if (std::exchange(sent, Sent::kRequested) == Sent::kAhead) ahead_->on_requested();
}

bool Publication::sign(Segment& segment) {
    // A reducer on this node may still hold the unsigned bytes, and shared bytes are never written.
    if (!segment.packet.unique()) segment.packet = pool_.copy_of(segment.packet);
    const auto bytes = segment.packet.writable();
    segment.is_signed =
        signer_->sign(bytes.subspan(segment.signed_offset, segment.signed_size),
                      bytes.subspan(segment.signature_offset, signer_->signature_size()));
    return segment.is_signed;
}

void Publication::retain_all() {
    if (all_retained_) return;
    for (std::uint64_t segment = released_; segment < segments_.size(); ++segment) {
        retain(segment);
        segments_[static_cast<std::size_t>(segment)].packet.take_in();
    }
    all_retained_ = true;
    forget_tensor();
}

void Publication::abort(const std::string& why) {
    aborted_ = true;
    abort_reason_ = why;
    for (Segment& segment : segments_) release(segment);
    segments_.clear();
    forget_tensor();
}

std::span<const std::uint8_t> Publication::bytes_of(std::uint64_t segment) const {
    if (segment_ends_.empty()) {
        return tensor_.subspan(static_cast<std::size_t>(segmentation_.offset_of(segment)),
                               static_cast<std::size_t>(segmentation_.size_of(segment)));
    }
    const auto number = static_cast<std::size_t>(segment);
    const std::uint64_t begin = number == 0 ? 0 : segment_ends_[number - 1];
    return tensor_.subspan(static_cast<std::size_t>(begin),
                           static_cast<std::size_t>(segment_ends_[number] - begin));
}

void Publication::forget_tensor() {
    tensor_ = {};
    segment_ends_ = {};
}

}  // namespace innet
