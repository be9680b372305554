#pragma once
// Makes the packets of an object: segments without a signature of their own, and the manifests that
// list them, the root of which carries the object's only signature (docs/protocol.md, "Objects").

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "transport/buffer/packet_ref.hpp"
#include "transport/object/object_cut.hpp"
#include "transport/object/object_seal.hpp"
#include "transport/object/published_object.hpp"
#include "transport/security/keyring.hpp"
#include "transport/security/manifest.hpp"

namespace innet {

/// Cuts, hashes and signs in slices, so that a large object does not delay a node's packets:
///
///     ObjectPublication object(spec, cut, 1, pool, std::move(root_signer));
///     while (object.advance(256 * 1024) == ObjectPublication::Progress::kUnderWay) {}
///     auto published = object.take();
///
/// Every byte is hashed once, unless that was done before, and copied, unless it is lent: then a
/// segment is copied on each request, and the object takes its memory once.
class ObjectPublication {
  public:
    /// `pool` and `hasher` outlive the publication. Each byte of a segment stands for
    /// `virtual_scale`. `tagger` may be null.
    ObjectPublication(const ObjectSpec& spec, const ObjectCut& cut, std::uint32_t virtual_scale,
                      PacketPool& pool, security::BatchHasher& hasher,
                      std::shared_ptr<security::Signer> root_signer,
                      std::shared_ptr<security::SegmentTagger> tagger = nullptr);
    /// Publishes bytes under an earlier signature: fails when the bytes do not match.
    ObjectPublication(const ObjectSpec& spec, ObjectSeal seal, std::uint32_t virtual_scale,
                      PacketPool& pool, security::BatchHasher& hasher);

    wire::NameView name() const { return object_.view(); }
    std::uint64_t size_bytes() const { return segments_.of.bytes().size(); }
    bool is_sealed() const { return seal_.has_value(); }
    /// kComplete: all packets are there, and the caller's bytes are not needed any more. kFailed:
    /// the key signs no more, or the bytes do not fit the seal.
    enum class Progress : std::uint8_t { kUnderWay, kComplete, kFailed };
    /// Encodes segments of about `budget_bytes`, and the manifests with the last ones. Must not be
    /// called again after its end.
    Progress advance(std::size_t budget_bytes);

    /// `advance` in steps, so that segments of several objects can be hashed together: cuts the
    /// next segments, of about `budget_bytes`, ...
    void cut(std::size_t budget_bytes);
    /// ... whose digests are to be filled in unless they are known, ...
    std::span<security::HashJob> to_hash();
    /// ... and encodes the manifests with the last ones.
    Progress finish();

    /// Once complete, and once.
    std::unique_ptr<PublishedObject> take();

  private:
    bool digests_are_known() const { return seal_ && !seal_->segment_digests().empty(); }
    bool hashes() const { return !digests_are_known() && !lacks_digests_; }
    /// Of the segments from `first` on, which are cut.
    void tag_from(std::size_t first);
    bool make_manifests();
    std::optional<std::vector<PacketRef>> build(const security::ManifestBuilder& builder);

    wire::Name object_;
    PacketPool& pool_;
    security::BatchHasher& hasher_;
    std::shared_ptr<security::Signer> root_signer_;    ///< null when sealed, but by a draft
    std::shared_ptr<security::SegmentTagger> tagger_;  ///< null where nothing is tagged
    bool tags_segments_ = false;
    bool is_draft_ = false;       ///< the root stays without its signature ...
    bool lacks_digests_ = false;  ///< ... and the digests of segments, which are tagged
    std::optional<ObjectSeal> seal_;
    wire::ByteView lent_root_;  ///< empty: the object keeps a packet of its root
    KeptSegments segments_;
    std::uint64_t fan_out_;
    bool within_root_;
    std::vector<security::HashJob> jobs_;  ///< these two belong to the slice being cut
    std::vector<SegmentFrame> frames_;
    std::vector<security::SegmentTag> tags_;
    security::Sha256 sha256_;
    std::vector<ObjectPacket> manifests_;
    std::shared_ptr<ObjectMemory> root_into_;
};

}  // namespace innet
