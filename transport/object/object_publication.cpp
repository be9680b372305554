#include "transport/object/object_publication.hpp"

#include <algorithm>
#include <utility>

namespace innet {

ObjectPublication::ObjectPublication(const ObjectSpec& spec, const ObjectCut& cut,
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

ObjectPublication::ObjectPublication(const ObjectSpec& spec, ObjectSeal seal,
                                     std::uint32_t virtual_scale, PacketPool& pool)
    : ObjectPublication(spec, seal.cut(), virtual_scale, pool, nullptr) {
    seal_ = std::move(seal);
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
    auto packets = build(builder);
    if (!packets) return false;
    for (PacketRef& packet : *packets) {
        const auto digest = sha256_.digest(packet.bytes());
        manifests_.push_back({std::move(packet), digest});
    }
    return true;
}

std::optional<std::vector<PacketRef>> ObjectPublication::build(
    const security::ManifestBuilder& builder) {
    return seal_ ? builder.build_below(seal_->root(), seal_->listed(), pool_)
                 : builder.build(pool_, *root_signer_);
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
