#include "transport/object/published_object.hpp"

#include <algorithm>
#include <utility>

#include "transport/security/manifest.hpp"

namespace innet {

namespace {

bool is_other(wire::ByteView wanted, const security::Sha256Digest& digest) {
    return !wanted.empty() && !std::ranges::equal(wanted, digest);
}

}  // namespace

security::HashJob KeptSegments::to_hash(std::uint64_t segment, std::vector<SegmentFrame>& frames) {
    if (lent) return frames.emplace_back(of.frame(segment)).to_hash();
    return {{packets[static_cast<std::size_t>(segment)].bytes()}};
}

PublishedObject::PublishedObject(wire::Name name, std::vector<ObjectPacket> manifests,
                                 KeptSegments segments, DraftKeys draft_keys)
    : name_(std::move(name)),
      manifests_(std::move(manifests)),
      segments_(std::move(segments)),
      draft_keys_(std::move(draft_keys)) {
    for (const ObjectPacket& one : manifests_) retained_bytes_ += one.packet.pinned_bytes();
    for (const PacketRef& one : segments_.packets) retained_bytes_ += one.pinned_bytes();
    if (segments_.lent) retained_bytes_ += segments_.of.bytes().size();
}

PacketRef PublishedObject::signed_root() {
    ObjectPacket& root = manifests_[0];
    if (!draft_keys_.signer) return root.packet;
    PacketRef made = completed_root();
    if (!made) return {};
    root = {std::move(made), {}};
    root.digest = security::Sha256().digest(root.packet.bytes());
    draft_keys_ = {};
    return root.packet;
}

PacketRef PublishedObject::completed_root() {
    PacketPool& pool = segments_.of.pool();
    const auto draft = wire::DataView::parse(root().bytes());
    const auto manifest = security::ManifestVerifier::from_verified_root(*draft);
    if (!manifest || manifest->has_digests()) {
        return security::complete_draft(*draft, *draft_keys_.signer, pool);
    }
    hash_segments();
    security::ManifestBuilder builder(name_, manifest->tree().fan_out());
    builder.set_extent(*manifest->extent());
    for (const security::Sha256Digest& digest : segments_.digests) builder.add(digest);
    builder.set_tags(manifest->tags());
    builder.set_tagger(draft_keys_.tagger.get());
    auto manifests = builder.build(pool, *draft_keys_.signer);
    return manifests ? std::move(manifests->front()) : PacketRef();
}

void PublishedObject::hash_segments() {
    std::vector<SegmentFrame> frames;
    std::vector<security::HashJob> jobs;
    for (std::uint64_t segment = 0; segment < segments_.digests.size(); ++segment) {
        jobs.push_back(segments_.to_hash(segment, frames));
    }
    security::SerialHasher().digest(jobs);
    std::ranges::transform(jobs, segments_.digests.begin(), &security::HashJob::digest);
}

PacketRef PublishedObject::find(const SegmentName& name, bool accepts_draft) {
    const bool is_manifest = security::is_manifest_prefix(name.tensor);
    const bool is_root = is_manifest && name.segment == 0;
    const bool is_complete = is_root ? accepts_draft && name.digest.empty() : has_digests();
    if (!is_complete && (is_root || !name.digest.empty()) && !signed_root()) return {};
    if (!is_manifest) return find_segment(name);
    if (name.segment >= manifests_.size()) return {};
    const ObjectPacket& found = manifests_[static_cast<std::size_t>(name.segment)];
    return is_other(name.digest, found.digest) ? PacketRef() : found.packet;
}

PacketRef PublishedObject::find_segment(const SegmentName& name) {
    if (name.segment >= segments_.digests.size()) return {};
    const auto place = static_cast<std::size_t>(name.segment);
    if (is_other(name.digest, segments_.digests[place])) return {};
    return segments_.lent ? segments_.of.lent_packet(name.segment, segments_.lent)
                          : segments_.packets[place];
}

}  // namespace innet
