#pragma once
// A root manifest that was signed earlier; the object's bytes, cut again in the same way, must
// match it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/buffer/packet_ref.hpp"
#include "transport/object/object_cut.hpp"
#include "transport/object/object_prefix.hpp"
#include "transport/security/keyring.hpp"
#include "transport/security/sha256.hpp"

namespace innet {

struct SealedObjectSpec {
    ObjectSpec object;
    /// The root manifest, a Data packet: kept by `object.lent` as the bytes are, or copied.
    std::span<const std::uint8_t> root;
    /// Implicit digests of the segments that a fetch has verified against these bytes and the root:
    /// copied. Empty: not verified. The root's signature, or the tag of a draft, is verified unless
    /// it is proven, because the fetch may have relied on the root's tag.
    std::span<const security::Sha256Digest> digests = {};
    bool root_is_proven = false;  ///< see ObjectMemory
};

class ObjectSeal {
  public:
    /// Nothing, and `why`, when the root is no root manifest of an object of that name and size, is
    /// not signed by an Ed25519 key that `keyring` trusts with the name, nor a draft that `prefix`
    /// has the keys of, or describes packets larger than the object's limit. The root's bytes may
    /// be hostile.
    static std::optional<ObjectSeal> verified(const SealedObjectSpec& spec,
                                              const security::Keyring& keyring,
                                              const ObjectPrefix& prefix, PacketPool& pool,
                                              std::string& why);

    const ObjectCut& cut() const { return cut_; }
    const PacketRef& root() const { return root_; }
    /// The root's bytes, as they were given.
    wire::ByteView lent_root() const { return lent_root_; }
    /// Complete the root; null: it is complete.
    const DraftKeys& draft_keys() const { return draft_keys_; }
    /// The segments' digests, if they are known already.
    std::span<const security::Sha256Digest> segment_digests() const { return segment_digests_; }
    /// The digests that the root lists: of its child manifests or segments.
    std::span<const security::Sha256Digest> listed() const { return listed_; }
    /// The segments' tags, where the root has no digests.
    std::span<const security::SegmentTag> tags() const { return tags_; }

  private:
    ObjectSeal() = default;

    ObjectCut cut_;
    PacketRef root_;
    wire::ByteView lent_root_;
    DraftKeys draft_keys_;
    std::vector<security::Sha256Digest> listed_;
    std::vector<security::Sha256Digest> segment_digests_;
    std::vector<security::SegmentTag> tags_;
};

}  // namespace innet
