#pragma once
// Names of segments: a tensor's name and a Segment component.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transport/security/sha256.hpp"
#include "transport/wire/name.hpp"
#include "transport/wire/tlv.hpp"

namespace innet {

/// Makes the names of one tensor's segments in a buffer of its own: no allocation per name.
class SegmentNamer {
  public:
    SegmentNamer() = default;
    explicit SegmentNamer(wire::NameView tensor)
        : tensor_size_(tensor.value().size()),
          buffer_(tensor.value().begin(), tensor.value().end()) {
        buffer_.resize(tensor_size_ + kMaxComponentSize);
    }

    wire::NameView tensor() const {
        return wire::NameView::trusted(wire::ByteView(buffer_).first(tensor_size_));
    }
    /// Valid until the next call.
    wire::NameView segment(std::uint64_t number) {
        wire::Writer writer(std::span<std::uint8_t>(buffer_).subspan(tensor_size_));
        writer.nonnegative_element(wire::kSegmentComponent, number);
        return wire::NameView::trusted(wire::ByteView(buffer_).first(tensor_size_ + writer.size()));
    }
    /// The segment's full name, which ends with its implicit digest. Valid until the next call.
    wire::NameView segment(std::uint64_t number, const security::Sha256Digest& digest) {
        wire::Writer writer(std::span<std::uint8_t>(buffer_).subspan(tensor_size_));
        writer.nonnegative_element(wire::kSegmentComponent, number);
        writer.element(wire::kImplicitSha256Digest, digest);
        return wire::NameView::trusted(wire::ByteView(buffer_).first(tensor_size_ + writer.size()));
    }

  private:
    /// A segment number and an implicit digest.
    static constexpr std::size_t kMaxComponentSize = 10 + 2 + security::kSha256Size;

    std::size_t tensor_size_ = 0;
    std::vector<std::uint8_t> buffer_;
};

/// A segment's name taken apart.
struct SegmentName {
    wire::NameView tensor;
    std::uint64_t segment = 0;
    wire::ByteView digest;  ///< of a full name, else empty

    /// Nothing when the last component is no segment number.
    static std::optional<SegmentName> parse(wire::NameView name) {
        const wire::Element last = name.last_component();
        if (last.type != wire::kSegmentComponent) return std::nullopt;
        const auto number = wire::read_nonnegative(last.value);
        const wire::ByteView tensor = name.value().first(name.value().size() - last.whole.size());
        if (!number || tensor.empty()) return std::nullopt;
        return SegmentName{wire::NameView::trusted(tensor), *number, {}};
    }

    /// Parses a name that may end with an implicit digest.
    static std::optional<SegmentName> parse_full(wire::NameView name) {
        const wire::Element last = name.last_component();
        if (last.type != wire::kImplicitSha256Digest) return parse(name);
        auto parsed = parse(name.parent());
        if (parsed) parsed->digest = last.value;
        return parsed;
    }
};

}  // namespace innet
