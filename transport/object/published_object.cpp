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

PublishedObject::PublishedObject(std::vector<ObjectPacket> manifests, KeptSegments segments,
                                 DraftKeys draft_keys, wire::ByteView lent_root)
    : manifests_(std::move(manifests)),
      lent_root_(lent_root),
      segments_(std::move(segments)),
      draft_keys_(std::move(draft_keys)) {
    if (!lent_root_.empty()) manifests_[0].packet = {};
    for (const ObjectPacket& one : manifests_) retained_bytes_ += one.packet.pinned_bytes();
    for (const PacketRef& one : segments_.packets) retained_bytes_ += one.pinned_bytes();
    if (segments_.lent) retained_bytes_ += segments_.of.bytes().size() + lent_root_.size();
}

PacketRef PublishedObject::root() const {
    const PacketRef& packet = manifests_[0].packet;
    return packet ? packet : segments_.of.pool().copy_of(lent_root_);
}

PacketRef PublishedObject::signed_root() {
    if (!draft_keys_.signer) return root();
    PacketRef made = completed_root();
    if (!made) return {};
    const security::Sha256Digest digest = security::Sha256().digest(made.bytes());
    manifests_[0] = {std::move(made), digest};
    draft_keys_ = {};
    return root();
}

PacketRef PublishedObject::completed_root() {
    PacketPool& pool = segments_.of.pool();
    const PacketRef packet = root();
    const auto draft = wire::DataView::parse(packet.bytes());
    const auto manifest = security::ManifestVerifier::from_verified_root(*draft);
    if (!manifest || manifest->has_digests()) {
        return security::complete_draft(*draft, *draft_keys_.signer, pool);
    }
    hash_segments();
    security::ManifestBuilder builder(wire::Name(name()), manifest->tree().fan_out());
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
    if (is_other(name.digest, found.digest)) return {};
    return is_root ? root() : found.packet;
}

PacketRef PublishedObject::find_segment(const SegmentName& name) {
    if (name.segment >= segments_.digests.size()) return {};
    const auto place = static_cast<std::size_t>(name.segment);
    if (is_other(name.digest, segments_.digests[place])) return {};
    return segments_.lent ? segments_.of.lent_packet(name.segment, segments_.lent)
                          : segments_.packets[place];
}

}  // namespace innet
