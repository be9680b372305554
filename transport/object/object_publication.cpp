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
      cutting_(spec.name, spec.bytes, cut.segmentation, {}, spec.bytes.size(), {}, virtual_scale,
               pool, security::make_null_signer()),
      fan_out_(cut.fan_out),
      root_into_(spec.root_into) {
    segments_.reserve(static_cast<std::size_t>(cut.segmentation.segments()));
}

ObjectPublication::ObjectPublication(const ObjectSpec& spec, ObjectSeal seal,
                                     std::uint32_t virtual_scale, PacketPool& pool)
    : ObjectPublication(spec, seal.cut(), virtual_scale, pool, nullptr) {
    seal_ = std::move(seal);
}

ObjectPublication::Progress ObjectPublication::advance(std::size_t budget_bytes) {
    const std::uint64_t count = cutting_.segmentation().segments();
    std::size_t done_bytes = 0;
    while (segments_.size() < count && done_bytes < budget_bytes) {
        PacketRef packet = cutting_.packet(segments_.size(), true);
        done_bytes += packet.size();
        const auto digest = digest_of(packet);
        segments_.push_back({std::move(packet), digest});
    }
    if (segments_.size() < count) return Progress::kUnderWay;
    return make_manifests() ? Progress::kComplete : Progress::kFailed;
}

security::Sha256Digest ObjectPublication::digest_of(const PacketRef& segment) {
    const bool is_known = seal_ && !seal_->segment_digests().empty();
    return is_known ? seal_->segment_digests()[segments_.size()] : sha256_.digest(segment.bytes());
}

bool ObjectPublication::make_manifests() {
    security::ManifestBuilder builder(object_, fan_out_);
    builder.set_extent(
        {cutting_.segmentation().block_bytes, cutting_.segmentation().segment_bytes});
    for (const ObjectPacket& segment : segments_) builder.add(segment.digest);
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

std::unique_ptr<PublishedObject> ObjectPublication::take() {
    auto published =
        std::make_unique<PublishedObject>(object_, std::move(manifests_), std::move(segments_));
    if (root_into_) root_into_->keep_root(published->root().bytes());
    return published;
}

}  // namespace innet
