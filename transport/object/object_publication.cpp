#include "transport/object/object_publication.hpp"

#include <algorithm>
#include <utility>

namespace innet {

namespace {

/// Whoever needs the digests waits for them, and so do the packets of others: a tenth of a
/// millisecond.
constexpr std::size_t kMostBytesWithoutDigests = 256 * 1024;

}  // namespace

ObjectPublication::ObjectPublication(const ObjectSpec& spec, const ObjectCut& cut,
                                     std::uint32_t virtual_scale, PacketPool& pool,
                                     security::BatchHasher& hasher,
                                     std::shared_ptr<security::Signer> root_signer,
                                     std::shared_ptr<security::SegmentTagger> tagger)
    : object_(spec.name),
      pool_(pool),
      hasher_(hasher),
      root_signer_(std::move(root_signer)),
      tagger_(std::move(tagger)),
      tags_segments_(tagger_ && cut.tagged),
      is_draft_(spec.draft && tagger_ && root_signer_->type() == wire::SignatureType::kEd25519),
      segments_{ObjectSegments(object_.view(), spec.bytes, cut.segmentation, virtual_scale, pool),
                {},
                {},
                spec.lent},
      fan_out_(cut.fan_out),
      within_root_(cut.within_root),
      root_into_(spec.root_into) {
    lacks_digests_ = is_draft_ && tags_segments_ && segments_.lent &&
                     spec.bytes.size() <= kMostBytesWithoutDigests;
    segments_.digests.reserve(static_cast<std::size_t>(cut.segmentation.segments()));
}

ObjectPublication::ObjectPublication(const ObjectSpec& spec, ObjectSeal seal,
                                     std::uint32_t virtual_scale, PacketPool& pool,
                                     security::BatchHasher& hasher)
    : ObjectPublication(spec, seal.cut(), virtual_scale, pool, hasher, seal.draft_keys().signer,
                        seal.draft_keys().tagger) {
    is_draft_ = root_signer_ != nullptr;
    if (segments_.lent) lent_root_ = seal.lent_root();
    seal_ = std::move(seal);
    lacks_digests_ = !digests_are_known() && !seal_->tags().empty();
    tags_segments_ = lacks_digests_;
}

ObjectPublication::Progress ObjectPublication::advance(std::size_t budget_bytes) {
    cut(budget_bytes);
    hasher_.digest(to_hash());
    return finish();
}

void ObjectPublication::cut(std::size_t budget_bytes) {
    if (digests_are_known() && segments_.lent) return;  // no packet is needed yet
    const Segmentation& cut = segments_.of.segmentation();
    const std::size_t first = segments_.digests.size();
    std::size_t next = first;
    // A batch that leaves lanes of the hasher empty takes as long as a full one.
    const std::size_t batch = hashes() ? security::best_batch() : 1;
    const auto is_cut_off = [&] { return (next - first) % batch != 0; };
    for (std::size_t bytes = 0; next < cut.segments() && (bytes < budget_bytes || is_cut_off());
         ++next) {
        if (!segments_.lent) segments_.packets.push_back(segments_.of.packet(next));
        jobs_.push_back(segments_.to_hash(next, frames_));
        bytes += static_cast<std::size_t>(cut.size_of(next)) + 1;
    }
}

std::span<security::HashJob> ObjectPublication::to_hash() {
    return hashes() ? jobs_ : std::span<security::HashJob>();
}

ObjectPublication::Progress ObjectPublication::finish() {
    const std::size_t first = segments_.digests.size();
    if (digests_are_known()) {
        const auto all = seal_->segment_digests();
        const auto known = segments_.lent ? all : all.subspan(first, jobs_.size());
        segments_.digests.insert(segments_.digests.end(), known.begin(), known.end());
    } else {
        for (const security::HashJob& job : jobs_) segments_.digests.push_back(job.digest);
    }
    if (tags_segments_) tag_from(first);
    jobs_.clear();
    frames_.clear();
    if (segments_.digests.size() < segments_.of.segmentation().segments()) {
        return Progress::kUnderWay;
    }
    return make_manifests() ? Progress::kComplete : Progress::kFailed;
}

void ObjectPublication::tag_from(std::size_t first) {
    for (const SegmentFrame& frame : frames_) tags_.push_back(tagger_->tag(frame.parts()));
    if (segments_.lent) return;
    for (const PacketRef& packet : std::span(segments_.packets).subspan(first)) {
        const auto data = wire::DataView::parse(packet.bytes());
        tags_.push_back(tagger_->tag(security::PacketParts::of(*data)));
    }
}

bool ObjectPublication::make_manifests() {
    if (seal_ && lacks_digests_ && !std::ranges::equal(tags_, seal_->tags())) return false;
    security::ManifestBuilder builder(object_, fan_out_);
    const Segmentation& cut = segments_.of.segmentation();
    builder.set_extent({cut.block_bytes, cut.segment_bytes});
    if (within_root_) builder.set_object(segments_.of.bytes());
    for (const security::Sha256Digest& digest : segments_.digests) builder.add(digest);
    builder.set_tags(std::move(tags_));
    builder.set_tagger(tagger_.get());
    if (is_draft_) builder.set_draft();
    auto packets = build(builder);
    if (!packets) return false;
    for (PacketRef& packet : *packets) {
        const bool has_digest = !is_draft_ || !manifests_.empty();
        const auto digest = has_digest ? sha256_.digest(packet.bytes()) : security::Sha256Digest();
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
    auto published = std::make_unique<PublishedObject>(
        std::move(manifests_), std::move(segments_),
        is_draft_ ? DraftKeys{tagger_, root_signer_} : DraftKeys{}, lent_root_);
    if (root_into_) root_into_->keep_root(published->root().bytes());
    return published;
}

}  // namespace innet
