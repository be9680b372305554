#pragma once
// One published object: its segments as DigestSha256 Data, and the manifests that list them, the
// root of which carries the object's only public-key signature (docs/protocol.md, "Objects").

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/buffer/packet_ref.hpp"
#include "transport/publish/publication.hpp"
#include "transport/publish/segment_name.hpp"
#include "transport/security/keyring.hpp"
#include "transport/security/manifest.hpp"

namespace innet {

struct ObjectSpec {
    wire::Name name;
    std::span<const std::uint8_t> bytes;  ///< read until the publication is complete
    std::size_t max_packet_bytes = 0;     ///< of a Data packet, at most
};

/// Cut, hashed and signed bit by bit, so that a large object does not keep a node from its packets:
///
///     ObjectPublication object(spec, cut, 1, pool, std::move(root_signer));
///     while (object.advance(256 * 1024) == ObjectPublication::Progress::kUnderWay) {}
///
/// Every byte is copied once and hashed twice (its segment's DigestSha256 signature, its segment's
/// implicit digest): publishing takes time in proportion to the object. Fetching then costs the
/// publisher nothing but sending.
class ObjectPublication {
  public:
    /// How an object is cut so that no packet exceeds the limit.
    struct Cut {
        Segmentation segmentation;
        std::uint64_t fan_out = 0;

        /// Nothing when the object's name leaves no room in a packet, or it has too many segments.
        /// A packet's limit counts what its content stands for.
        static std::optional<Cut> of(const ObjectSpec& spec, const security::Signer& root_signer,
                                     std::uint32_t virtual_scale);
    };

    /// `pool` outlives the publication. Each byte of a segment stands for `virtual_scale`.
    ObjectPublication(const ObjectSpec& spec, const Cut& cut, std::uint32_t virtual_scale,
                      PacketPool& pool, std::unique_ptr<security::Signer> root_signer);

    wire::NameView name() const { return object_.view(); }
    /// kComplete: all packets are there, and the caller's bytes are not needed any more. kFailed:
    /// the key signs no more.
    enum class Progress : std::uint8_t { kUnderWay, kComplete, kFailed };
    /// Encodes segments of about `budget_bytes`; with the last ones come the manifests. Not to be
    /// called again after its end.
    Progress advance(std::size_t budget_bytes);

    /// Once complete.
    PacketRef root() const { return manifests_[0].packet; }

    /// The packet of this name (a segment's or a manifest's, with or without its implicit digest).
    /// Empty when there is none, or its digest is another. Once complete.
    PacketRef find(const SegmentName& name);
    std::size_t retained_bytes() const { return segments_.retained_bytes(); }

  private:
    struct Packet {
        PacketRef packet;
        security::Sha256Digest digest;
    };

    bool make_manifests();

    wire::Name object_;
    PacketPool& pool_;
    std::unique_ptr<security::Signer> root_signer_;
    std::unique_ptr<security::Signer> segment_signer_;
    Publication segments_;
    std::vector<security::Sha256Digest> segment_digests_;
    std::uint64_t fan_out_;
    security::Sha256 sha256_;
    std::vector<Packet> manifests_;
};

}  // namespace innet
