#pragma once
// A large object signed once: manifests list the implicit digests of its segments, and the root
// manifest carries the object's only public-key signature (docs/protocol.md, "Manifests").

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "transport/buffer/packet_ref.hpp"
#include "transport/security/keyring.hpp"
#include "transport/security/manifest_tree.hpp"
#include "transport/security/segment_tagger.hpp"
#include "transport/security/sha256.hpp"
#include "transport/wire/data.hpp"
#include "transport/wire/name.hpp"

namespace innet::security {

/// 256 digests keep a manifest below the 8800 bytes that foreign clients take.
inline constexpr std::uint64_t kDefaultManifestFanOut = 256;

/// `<object>/32=manifest/seg=<manifest>`.
wire::Name manifest_name(const wire::Name& object, std::uint64_t manifest);
/// True for `<object>/32=manifest`.
bool is_manifest_prefix(wire::NameView name);
/// True for `<object>/32=manifest/seg=<manifest>`. Most other names are rejected by their last
/// bytes, without parsing their components.
bool is_manifest(wire::NameView name);
/// `is_manifest` for manifest 0.
bool is_root_manifest(wire::NameView name);

/// Bytes of a root manifest's own tag.
inline constexpr std::size_t kRootTagElementBytes = 2 + kSegmentTagSize;
/// Whether the root manifest has the right tag: then a holder of the key made its name and Content.
bool has_root_tag(const wire::DataView& root, SegmentTagger& tagger);
/// Whether the root manifest is a draft: zero bytes stand for its Ed25519 signature, which is made
/// when somebody needs it who cannot verify tags. If it has tags, its digests may be zero as well.
bool is_draft(const wire::DataView& root);
/// The draft, which has digests, with its signature. Empty when there is no packet for it, or
/// `signer` is of another key than the root names.
PacketRef complete_draft(const wire::DataView& draft, Signer& signer, PacketPool& pool);

/// How an object is cut: every segment but the last has `segment_bytes`.
struct ObjectExtent {
    std::uint64_t object_bytes = 0;
    std::uint64_t segment_bytes = 0;
};

/// Bytes of a packet.
struct PacketRange {
    std::size_t offset = 0;
    std::size_t size = 0;
};

class ManifestWriter;

/// Makes the manifests of one object.
///
///     ManifestBuilder builder(object);
///     for (const auto& packet : segments) builder.add(sha256.digest(packet.bytes()));
///     const auto manifests = builder.build(pool, *ed25519_signer);
class ManifestBuilder {
  public:
    /// `fan_out`: digests in one manifest, 2 to 2048.
    explicit ManifestBuilder(wire::Name object, std::uint64_t fan_out = kDefaultManifestFanOut);

    /// The implicit digest of the next segment: SHA-256 over its whole Data packet.
    void add(const Sha256Digest& segment_digest) { digests_.push_back(segment_digest); }

    /// Tells readers of the root how large the object is.
    void set_extent(const ObjectExtent& extent) { extent_ = extent; }

    /// Lets the root have all of the object within it; `bytes` outlive this.
    void set_object(wire::ByteView bytes) { object_bytes_ = bytes; }

    /// Lets the root, when it lists all segments itself, have a tag for each as well.
    void set_tags(std::vector<SegmentTag> tags) { tags_ = std::move(tags); }

    /// Lets the root have a tag of its own; `tagger` outlives this.
    void set_tagger(SegmentTagger* tagger) { tagger_ = tagger; }

    /// Leaves the root without its signature.
    void set_draft() { is_draft_ = true; }

    /// All manifests, by number (the root first). Nothing when there is no segment, the fan-out is
    /// out of range, a manifest exceeds the largest packet, or the signer can sign no more.
    std::optional<std::vector<PacketRef>> build(PacketPool& pool, Signer& root_signer) const;
    /// Builds the manifests below a root that was signed earlier and lists `listed`. Nothing when
    /// their digests do not match `listed`.
    std::optional<std::vector<PacketRef>> build_below(const PacketRef& root,
                                                      std::span<const Sha256Digest> listed,
                                                      PacketPool& pool) const;

  private:
    /// All manifests but the root, and the digests that the root has to list.
    struct Levels {
        std::vector<PacketRef> manifests;
        std::vector<Sha256Digest> listed_by_root;
    };
    std::optional<Levels> build_levels(ManifestWriter& writer, const ManifestTree& tree) const;

    wire::Name object_;
    std::uint64_t fan_out_;
    std::optional<ObjectExtent> extent_;
    std::optional<wire::ByteView> object_bytes_;
    std::vector<SegmentTag> tags_;
    SegmentTagger* tagger_ = nullptr;
    bool is_draft_ = false;
    std::vector<Sha256Digest> digests_;
};

/// A manifest's verdict on a segment. kUnknown: the manifest that lists it is not received yet.
enum class SegmentVerdict : std::uint8_t { kValid, kInvalid, kUnknown };

/// Checks the segments of one object against its manifests, in any order. Holds 32 bytes a segment,
/// of the manifests that came.
class ManifestVerifier {
  public:
    /// `root` is the object's root manifest, and its signature has been verified by its key (a
    /// digest alone proves nothing here), or its tag. Nothing when it is not a well-formed root
    /// manifest.
    static std::optional<ManifestVerifier> from_verified_root(const wire::DataView& root);

    wire::NameView object() const { return object_.view(); }
    const ManifestTree& tree() const { return tree_; }
    /// The object's size according to the root, if present.
    const std::optional<ObjectExtent>& extent() const { return extent_; }
    /// Where the root's packet has the whole object within it, if it does.
    const std::optional<PacketRange>& object_within_root() const { return object_within_root_; }
    /// The segments' tags, if the root contains them; else empty.
    const std::vector<SegmentTag>& tags() const { return tags_; }
    /// False for a draft whose digests are not computed yet: its tags alone tell its segments.
    bool has_digests() const { return has_digests_; }
    /// The concatenated digests of manifests [first, first + count), which must be
    /// received.
    std::vector<Sha256Digest> listed_by(std::uint64_t first, std::uint64_t count) const;

    /// Adds another manifest of the object, after its parent. False, without effect, when its
    /// parent is not received or does not list these bytes, or when it is malformed.
    [[nodiscard]] bool add_manifest(const wire::DataView& manifest);
    /// The manifest to fetch next so that `segment` can be checked; nothing when it can be already,
    /// or when there is no such segment.
    std::optional<std::uint64_t> missing_manifest(std::uint64_t segment) const;

    SegmentVerdict check(std::uint64_t segment, const Sha256Digest& digest) const;
    /// Checks a packet `<object>/seg=<k>`; any other name is kInvalid.
    SegmentVerdict check(const wire::DataView& packet);

  private:
    ManifestVerifier(wire::Name object, ManifestTree tree);

    /// Digests of manifest `manifest`'s children; null until it is received.
    const std::vector<Sha256Digest>* digests_of(std::uint64_t manifest) const;
    bool store(std::uint64_t manifest, wire::ByteView digests);
    bool store_tags(wire::ByteView tags);

    wire::Name object_;
    ManifestTree tree_;
    std::optional<ObjectExtent> extent_;
    std::optional<PacketRange> object_within_root_;
    std::vector<SegmentTag> tags_;
    bool has_digests_ = true;
    std::unordered_map<std::uint64_t, std::vector<Sha256Digest>> digests_;
    Sha256 sha256_;
};

}  // namespace innet::security
