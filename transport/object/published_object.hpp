#pragma once
// The packets of one published object: its segments and its manifests.

#include <cstddef>
#include <memory>
#include <vector>

#include "transport/buffer/packet_ref.hpp"
#include "transport/object/object_prefix.hpp"
#include "transport/object/object_segments.hpp"
#include "transport/publish/segment_name.hpp"
#include "transport/security/keyring.hpp"
#include "transport/security/sha256.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// A Data packet with its implicit digest.
struct ObjectPacket {
    PacketRef packet;
    security::Sha256Digest digest{};
};

/// Segments as they are kept: packets, or the bytes that they are made of.
struct KeptSegments {
    ObjectSegments of;
    std::vector<security::Sha256Digest> digests;
    std::vector<PacketRef> packets;    ///< empty where the bytes are lent
    std::shared_ptr<const void> lent;  ///< keeps the bytes; null where packets are kept

    /// Of one segment, as long as `frames` keeps what it adds there.
    security::HashJob to_hash(std::uint64_t segment, std::vector<SegmentFrame>& frames);
};

class PublishedObject {
  public:
    /// Both by number; `manifests` begin with the root, which `draft_keys` complete where it is a
    /// draft. Where `lent_root` is given, it has the root's bytes and is kept by what keeps the
    /// segments' bytes: the root's packet is then made on request, as theirs are.
    PublishedObject(std::vector<ObjectPacket> manifests, KeptSegments segments,
                    DraftKeys draft_keys = {}, wire::ByteView lent_root = {});

    wire::NameView name() const { return segments_.of.object(); }
    /// The root, which may be a draft.
    PacketRef root() const;
    /// The root with its signature, which is made once. Empty when it cannot be made.
    PacketRef signed_root();
    /// The packet of this name (a segment's or a manifest's, with or without its implicit digest).
    /// Empty when the object has no such packet, or one of another digest. A draft is returned only
    /// if `accepts_draft`.
    PacketRef find(const SegmentName& name, bool accepts_draft = false);
    /// Packet bytes, or lent ones, kept for the object.
    std::size_t retained_bytes() const { return retained_bytes_; }

  private:
    PacketRef find_segment(const SegmentName& name);
    bool has_digests() const {
        return segments_.digests.empty() || segments_.digests[0] != security::Sha256Digest();
    }
    /// The root that the draft becomes, with the segments' digests.
    PacketRef completed_root();
    void hash_segments();

    std::vector<ObjectPacket> manifests_;
    wire::ByteView lent_root_;  ///< of the root without a packet
    KeptSegments segments_;
    DraftKeys draft_keys_;  ///< null: the root is signed
    std::size_t retained_bytes_ = 0;
};

}  // namespace innet
