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
#include "transport/publish/publication.hpp"
#include "transport/security/keyring.hpp"
#include "transport/security/manifest.hpp"

namespace innet {

/// Cut, hashed and signed bit by bit, so that a large object does not keep a node from its packets:
///
///     ObjectPublication object(spec, cut, 1, pool, std::move(root_signer));
///     while (object.advance(256 * 1024) == ObjectPublication::Progress::kUnderWay) {}
///     auto published = object.take();
///
/// Every byte is copied and hashed once: publishing takes time in proportion to the object.
/// Fetching then costs the publisher nothing but sending.
class ObjectPublication {
  public:
    /// `pool` outlives the publication. Each byte of a segment stands for `virtual_scale`.
    ObjectPublication(const ObjectSpec& spec, const ObjectCut& cut, std::uint32_t virtual_scale,
                      PacketPool& pool, std::unique_ptr<security::Signer> root_signer);
    /// Publishes again what was signed earlier: fails when the bytes are others.
    ObjectPublication(const ObjectSpec& spec, ObjectSeal seal, std::uint32_t virtual_scale,
                      PacketPool& pool);

    wire::NameView name() const { return object_.view(); }
    std::uint64_t size_bytes() const { return cutting_.segmentation().block_bytes; }
    bool is_sealed() const { return seal_.has_value(); }
    /// kComplete: all packets are there, and the caller's bytes are not needed any more. kFailed:
    /// the key signs no more, or the bytes do not fit the seal.
    enum class Progress : std::uint8_t { kUnderWay, kComplete, kFailed };
    /// Encodes segments of about `budget_bytes`; with the last ones come the manifests. Not to be
    /// called again after its end.
    Progress advance(std::size_t budget_bytes);

    /// Once complete, and once.
    std::unique_ptr<PublishedObject> take();

  private:
    /// Of the segment that is cut next.
    security::Sha256Digest digest_of(const PacketRef& segment);
    bool make_manifests();
    std::optional<std::vector<PacketRef>> build(const security::ManifestBuilder& builder);

    wire::Name object_;
    PacketPool& pool_;
    std::unique_ptr<security::Signer> root_signer_;  ///< null when sealed
    std::optional<ObjectSeal> seal_;
    Publication cutting_;
    std::vector<ObjectPacket> segments_;
    std::uint64_t fan_out_;
    security::Sha256 sha256_;
    std::vector<ObjectPacket> manifests_;
    std::shared_ptr<ObjectMemory> root_into_;
};

}  // namespace innet
