#include "transport/object/object_seal.hpp"

#include "transport/security/manifest.hpp"
#include "transport/wire/data.hpp"

namespace innet {

namespace {

/// Whether a holder of the prefix's keys made the draft, and this node can complete it.
bool is_trusted_draft(const wire::DataView& draft, bool is_proven, const ObjectPrefix& prefix) {
    return prefix.tagger && prefix.root_signer &&
           draft.key_name() == prefix.root_signer->key_name() &&
           (is_proven || security::has_root_tag(draft, *prefix.tagger));
}

/// Whether the root is by a key that is trusted with its name.
bool is_trusted(const wire::DataView& root, const SealedObjectSpec& spec,
                const security::Keyring& keyring, const ObjectPrefix& prefix) {
    // A digest proves no origin, whatever the keyring accepts.
    if (root.signature_type() != wire::SignatureType::kEd25519) return false;
    if (security::is_draft(root)) return is_trusted_draft(root, spec.root_is_proven, prefix);
    return spec.root_is_proven || keyring.verify(root) == security::Verdict::kValid;
}

/// The root's manifest, once its key and its name are right.
std::optional<security::ManifestVerifier> trusted_manifest(const wire::DataView& root,
                                                           const SealedObjectSpec& spec,
                                                           const security::Keyring& keyring,
                                                           const ObjectPrefix& prefix,
                                                           std::string& why) {
    if (!is_trusted(root, spec, keyring, prefix)) {
        why = "the signature of its root manifest is of no Ed25519 key trusted with it";
        return std::nullopt;
    }
    auto manifest = security::ManifestVerifier::from_verified_root(root);
    if (!manifest || !manifest->extent()) {
        why = "its root manifest is malformed";
        return std::nullopt;
    }
    if (manifest->object() != spec.object.name.view()) {
        why = "its root manifest is of " + manifest->object().to_uri();
        return std::nullopt;
    }
    return manifest;
}

}  // namespace

std::optional<ObjectSeal> ObjectSeal::verified(const SealedObjectSpec& spec,
                                               const security::Keyring& keyring,
                                               const ObjectPrefix& prefix, PacketPool& pool,
                                               std::string& why) {
    const auto root = wire::DataView::parse(spec.root);
    if (!root) {
        why = "its root manifest is no Data packet";
        return std::nullopt;
    }
    const auto manifest = trusted_manifest(*root, spec, keyring, prefix, why);
    if (!manifest) return std::nullopt;
    const security::ObjectExtent& extent = *manifest->extent();
    if (extent.object_bytes != spec.object.bytes.size()) {
        why = std::to_string(extent.object_bytes) + " bytes were signed, not " +
              std::to_string(spec.object.bytes.size());
        return std::nullopt;
    }
    ObjectSeal seal;
    seal.cut_ = {{1, extent.object_bytes, extent.segment_bytes}, manifest->tree().fan_out()};
    if (extent.segment_bytes == 0 ||
        seal.cut_.segmentation.segments() != manifest->tree().segments() ||
        !seal.cut_.fits(spec.object)) {
        why = "its segments of " + std::to_string(extent.segment_bytes) +
              " bytes do not fit its root manifest, or packets of " +
              std::to_string(spec.object.max_packet_bytes) + " bytes";
        return std::nullopt;
    }
    if (spec.digests.size() == manifest->tree().segments()) {
        seal.segment_digests_.assign(spec.digests.begin(), spec.digests.end());
    }
    seal.root_ = pool.copy_of(spec.root);
    seal.lent_root_ = spec.root;
    if (security::is_draft(*root)) seal.draft_keys_ = {prefix.tagger, prefix.root_signer};
    if (seal.draft_keys_.signer && !manifest->has_digests()) seal.tags_ = manifest->tags();
    seal.listed_ = manifest->listed_by(0, 1);
    return seal;
}

}  // namespace innet
