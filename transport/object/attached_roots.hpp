#pragma once
// Root manifests attached to a request to keep objects, which save its receiver from requesting
// them one by one and from verifying their signatures (docs/protocol.md, "Requests").

#include <span>
#include <vector>

#include "transport/buffer/packet_ref.hpp"
#include "transport/security/segment_tagger.hpp"
#include "transport/wire/data.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// Bytes that `roots` take when they are attached to one request.
std::size_t attached_size(std::span<const PacketRef> roots);

/// The value of AttachedRoots: the tag of `request` and the roots, then the roots, which are Data
/// packets. Empty when it fits into no packet.
PacketRef attach_roots(wire::NameView request, std::span<const PacketRef> roots,
                       security::SegmentTagger& tagger, PacketPool& pool);

/// The roots attached to `request`, whose signatures too are as a holder of the key attached them;
/// they view into `attached`. Empty when the tag is not right.
std::vector<wire::DataView> read_attached_roots(wire::NameView request, wire::ByteView attached,
                                                security::SegmentTagger& tagger);

}  // namespace innet
