#include "transport/object/object_publication.hpp"

#include <algorithm>
#include <utility>

namespace innet {

namespace {

/// Content of a segment is a multiple of this, which keeps copies aligned.
constexpr std::size_t kSegmentAlignment = 64;
/// A root manifest's numbers beside its list of digests, and the list's own header.
constexpr std::size_t kRootNumbersBytes = 4 * 11 + 6;

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
    const std::size_t content = spec.max_packet_bytes;
    return packet_size(name, fields, content, security::kSha256Size) - content;
}

std::size_t root_overhead(const ObjectSpec& spec, const security::Signer& root_signer) {
    wire::DataFields fields;
    fields.content_type = wire::ContentType::kManifest;
    fields.signature_type = root_signer.type();
    fields.key_name = root_signer.key_name();
    const std::size_t content = spec.max_packet_bytes;
    return packet_size(security::manifest_name(spec.name, kMaxSegments), fields, content,
                       root_signer.signature_size()) -
           content + kRootNumbersBytes;
}

}  // namespace

std::optional<ObjectPublication::Cut> ObjectPublication::Cut::of(
    const ObjectSpec& spec, const security::Signer& root_signer, std::uint32_t virtual_scale) {
    const std::size_t limit = std::min(spec.max_packet_bytes, kMaxPacketBytes);
    const std::size_t least_for_segment = segment_overhead(spec) + kSegmentAlignment;
    const std::size_t least_for_root =
        root_overhead(spec, root_signer) + security::kMinManifestFanOut * security::kSha256Size;
    if (limit < std::max(least_for_segment, least_for_root)) return std::nullopt;
    Cut cut;
    cut.segmentation.block_bytes = spec.bytes.size();
    const std::size_t room =
        (limit - segment_overhead(spec)) / kSegmentAlignment * kSegmentAlignment;
    if (room < virtual_scale) return std::nullopt;
    cut.segmentation.segment_bytes = room / virtual_scale;
    cut.fan_out =
        std::min<std::uint64_t>(security::kDefaultManifestFanOut,
                                (limit - root_overhead(spec, root_signer)) / security::kSha256Size);
    if (cut.segmentation.segments() > kMaxSegments) return std::nullopt;
    return cut;
}

ObjectPublication::ObjectPublication(const ObjectSpec& spec, const Cut& cut,
                                     std::uint32_t virtual_scale, PacketPool& pool,
                                     std::unique_ptr<security::Signer> root_signer)
    : object_(spec.name),
      pool_(pool),
      root_signer_(std::move(root_signer)),
      segment_signer_(security::make_digest_signer()),
      segments_(spec.name, spec.bytes, cut.segmentation, {}, spec.bytes.size(), {}, virtual_scale,
                pool, *segment_signer_),
      fan_out_(cut.fan_out) {
    segment_digests_.reserve(static_cast<std::size_t>(cut.segmentation.segments()));
}

ObjectPublication::Progress ObjectPublication::advance(std::size_t budget_bytes) {
    const std::uint64_t count = segments_.segmentation().segments();
    std::size_t done_bytes = 0;
    while (segment_digests_.size() < count && done_bytes < budget_bytes) {
        const PacketRef packet = segments_.packet(segment_digests_.size(), true);
        segment_digests_.push_back(sha256_.digest(packet.bytes()));
        done_bytes += packet.size();
    }
    if (segment_digests_.size() < count) return Progress::kUnderWay;
    return make_manifests() ? Progress::kComplete : Progress::kFailed;
}

bool ObjectPublication::make_manifests() {
    segments_.retain_all();
    security::ManifestBuilder builder(object_, fan_out_);
    builder.set_extent(
        {segments_.segmentation().block_bytes, segments_.segmentation().segment_bytes});
    for (const security::Sha256Digest& digest : segment_digests_) builder.add(digest);
    auto packets = builder.build(pool_, *root_signer_);
    if (!packets) return false;
    for (PacketRef& packet : *packets) {
        const auto digest = sha256_.digest(packet.bytes());
        manifests_.push_back({std::move(packet), digest});
    }
    return true;
}

PacketRef ObjectPublication::find(const SegmentName& name) {
    const bool wants_manifest = security::is_manifest_prefix(name.tensor);
    const std::size_t count = wants_manifest ? manifests_.size() : segment_digests_.size();
    if (name.segment >= count) return {};
    const auto number = static_cast<std::size_t>(name.segment);
    const auto& digest = wants_manifest ? manifests_[number].digest : segment_digests_[number];
    if (!name.digest.empty() && !std::ranges::equal(name.digest, digest)) return {};
    return wants_manifest ? manifests_[number].packet : segments_.packet(name.segment, true);
}

}  // namespace innet
