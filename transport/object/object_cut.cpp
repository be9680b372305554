#include "transport/object/object_cut.hpp"

#include <algorithm>

#include "transport/buffer/packet_ref.hpp"
#include "transport/security/manifest.hpp"
#include "transport/security/sha256.hpp"
#include "transport/wire/data.hpp"

namespace innet {

namespace {

/// Content of a segment is a multiple of this, which keeps copies aligned.
constexpr std::size_t kSegmentAlignment = 64;
/// The largest object that its root contains: a fetch needs no second round trip, and an existence
/// check receives only little extra.
constexpr std::size_t kMaxWithinRoot = 1024;
/// A root manifest's numbers beside its list of digests, and the list's own header.
constexpr std::size_t kRootNumbersBytes = 4 * 11 + 6;
/// The header of a root's list of tags.
constexpr std::size_t kTagsHeaderBytes = 6;
/// A root with tags is no larger, so that foreign clients take it.
constexpr std::size_t kMaxTaggedRoot = 8800;

/// Bytes of a packet with `content_bytes` of content, with the longest numbers that it can have.
std::size_t packet_size(const wire::Name& name, wire::DataFields fields, std::size_t content_bytes,
                        std::size_t signature_bytes) {
    fields.name = name.view();
    fields.final_segment = kMaxSegments;
    return wire::encoded_data_size(fields, content_bytes, signature_bytes);
}

std::size_t segment_overhead(const ObjectSpec& spec) {
    wire::Name name = spec.name;
    name.append_number(wire::kSegmentComponent, kMaxSegments);
    wire::DataFields fields;
    fields.tensor_elements = spec.bytes.size();
    fields.signature_type = wire::SignatureType::kNull;
    const std::size_t content = spec.max_packet_bytes;
    return packet_size(name, fields, content, 0) - content;
}

std::size_t root_overhead(const ObjectSpec& spec, const security::Signer& root_signer) {
    wire::DataFields fields;
    fields.content_type = wire::ContentType::kManifest;
    fields.signature_type = root_signer.type();
    fields.key_name = root_signer.key_name();
    const std::size_t content = spec.max_packet_bytes;
    return packet_size(security::manifest_name(spec.name, kMaxSegments), fields, content,
                       root_signer.signature_size()) -
           content + kRootNumbersBytes + security::kRootTagElementBytes;
}

}  // namespace

std::optional<ObjectCut> ObjectCut::of(const ObjectSpec& spec, const security::Signer& root_signer,
                                       std::uint32_t virtual_scale) {
    const std::size_t limit = std::min(spec.max_packet_bytes, kMaxPacketBytes);
    const std::size_t least_for_segment = segment_overhead(spec) + kSegmentAlignment;
    const std::size_t least_for_root =
        root_overhead(spec, root_signer) + security::kMinManifestFanOut * security::kSha256Size;
    if (limit < std::max(least_for_segment, least_for_root)) return std::nullopt;
    ObjectCut cut;
    cut.segmentation.block_bytes = spec.bytes.size();
    const std::size_t room =
        (limit - segment_overhead(spec)) / kSegmentAlignment * kSegmentAlignment;
    if (room < virtual_scale) return std::nullopt;
    cut.segmentation.segment_bytes = room / virtual_scale;
    cut.fan_out =
        std::min<std::uint64_t>(security::kDefaultManifestFanOut,
                                (limit - root_overhead(spec, root_signer)) / security::kSha256Size);
    if (cut.segmentation.segments() > kMaxSegments) return std::nullopt;
    // Virtual bytes count against the packet's limit, too.
    const std::size_t within = wire::element_size(wire::kManifestObject, spec.bytes.size());
    cut.within_root = virtual_scale == 1 && spec.bytes.size() <= kMaxWithinRoot &&
                      root_overhead(spec, root_signer) + security::kSha256Size + within <= limit;
    const std::uint64_t segments = cut.segmentation.segments();
    const std::uint64_t listed = segments * (security::kSha256Size + security::kSegmentTagSize);
    cut.tagged = !cut.within_root && segments <= cut.fan_out &&
                 root_overhead(spec, root_signer) + kTagsHeaderBytes + listed <=
                     std::min(limit, kMaxTaggedRoot);
    return cut;
}

bool ObjectCut::fits(const ObjectSpec& spec) const {
    const std::size_t limit = std::min(spec.max_packet_bytes, kMaxPacketBytes);
    const std::size_t largest = std::min(segmentation.segment_bytes, segmentation.block_bytes);
    return segmentation.segments() <= kMaxSegments && largest <= limit &&
           segment_overhead(spec) <= limit - largest;
}

}  // namespace innet
