#include "transport/object/published_object.hpp"

#include <algorithm>
#include <utility>

#include "transport/security/manifest.hpp"

namespace innet {

PublishedObject::PublishedObject(wire::Name name, std::vector<ObjectPacket> manifests,
                                 std::vector<ObjectPacket> segments)
    : name_(std::move(name)), manifests_(std::move(manifests)), segments_(std::move(segments)) {
    for (const ObjectPacket& one : manifests_) retained_bytes_ += one.packet.pinned_bytes();
    for (const ObjectPacket& one : segments_) retained_bytes_ += one.packet.pinned_bytes();
}

PacketRef PublishedObject::find(const SegmentName& name) const {
    const auto& packets = security::is_manifest_prefix(name.tensor) ? manifests_ : segments_;
    if (name.segment >= packets.size()) return {};
    const ObjectPacket& found = packets[static_cast<std::size_t>(name.segment)];
    if (!name.digest.empty() && !std::ranges::equal(name.digest, found.digest)) return {};
    return found.packet;
}

}  // namespace innet
