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

PublishedObject::PublishedObject(wire::Name name, std::vector<ObjectPacket> manifests,
                                 KeptSegments segments,
                                 std::shared_ptr<security::Signer> draft_signer)
    : name_(std::move(name)),
      manifests_(std::move(manifests)),
      segments_(std::move(segments)),
      draft_signer_(std::move(draft_signer)) {
    for (const ObjectPacket& one : manifests_) retained_bytes_ += one.packet.pinned_bytes();
    for (const PacketRef& one : segments_.packets) retained_bytes_ += one.pinned_bytes();
    if (segments_.lent) retained_bytes_ += segments_.of.bytes().size();
}

PacketRef PublishedObject::signed_root() {
    ObjectPacket& root = manifests_[0];
    if (!draft_signer_) return root.packet;
    const auto draft = wire::DataView::parse(root.packet.bytes());
    PacketRef made = security::complete_draft(*draft, *draft_signer_, segments_.of.pool());
    if (!made) return {};
    root = {std::move(made), {}};
    root.digest = security::Sha256().digest(root.packet.bytes());
    draft_signer_ = nullptr;
    return root.packet;
}

PacketRef PublishedObject::find(const SegmentName& name, bool accepts_draft) {
    if (!security::is_manifest_prefix(name.tensor)) return find_segment(name);
    if (name.segment >= manifests_.size()) return {};
    const bool takes_draft = accepts_draft && name.digest.empty();
    if (name.segment == 0 && !takes_draft && !signed_root()) return {};
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
