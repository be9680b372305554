#include "transport/object/attached_roots.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "transport/wire/tlv.hpp"

namespace innet {

namespace {

/// Differs from the first byte of what tags of segments and of roots cover.
constexpr std::array<std::uint8_t, 1> kRequestType{wire::kInterest};

security::PacketParts tagged_parts(wire::NameView request, wire::ByteView roots) {
    return {kRequestType, roots, request.value()};
}

}  // namespace

std::size_t attached_size(std::span<const PacketRef> roots) {
    return std::accumulate(
        roots.begin(), roots.end(), security::kSegmentTagSize,
        [](std::size_t sum, const PacketRef& root) { return sum + root.size(); });
}

PacketRef attach_roots(wire::NameView request, std::span<const PacketRef> roots,
                       security::SegmentTagger& tagger, PacketPool& pool) {
    PacketRef attached = pool.allocate(attached_size(roots));
    if (!attached) return {};
    const std::span<std::uint8_t> bytes = attached.writable();
    auto next = bytes.begin() + security::kSegmentTagSize;
    for (const PacketRef& root : roots) next = std::ranges::copy(root.bytes(), next).out;
    const auto tag = tagger.tag(tagged_parts(request, bytes.subspan(security::kSegmentTagSize)));
    std::ranges::copy(tag, bytes.begin());
    return attached;
}

std::vector<wire::DataView> read_attached_roots(wire::NameView request, wire::ByteView attached,
                                                security::SegmentTagger& tagger) {
    if (attached.size() <= security::kSegmentTagSize) return {};
    security::SegmentTag tag;
    std::ranges::copy(attached.first(security::kSegmentTagSize), tag.begin());
    const wire::ByteView packets = attached.subspan(security::kSegmentTagSize);
    if (!tagger.holds(tagged_parts(request, packets), tag)) return {};
    std::vector<wire::DataView> roots;
    for (wire::Reader reader(packets); !reader.empty();) {
        const auto element = reader.next();
        const auto root = element ? wire::DataView::parse(element->whole) : std::nullopt;
        if (!root) return {};
        roots.push_back(*root);
    }
    return roots;
}

}  // namespace innet
