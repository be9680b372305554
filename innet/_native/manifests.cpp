// Manifests of objects that Python publishes and fetches.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "innet/_native/bindings.hpp"
#include "innet/_native/byte_arguments.hpp"
#include "innet/_native/received_packets.hpp"
#include "transport/buffer/packet_ref.hpp"
#include "transport/security/manifest.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using security::ManifestSlot;
using security::ManifestVerifier;

ManifestVerifier verifier_of(const ReceivedData& root) {
    auto verifier = ManifestVerifier::from_verified_root(root.view);
    if (!verifier) throw nb::value_error("not a root manifest");
    return std::move(*verifier);
}

nb::bytes digest_at(const ManifestVerifier& verifier, const ManifestSlot& slot) {
    const auto listed = verifier.listed_by(slot.manifest, 1);
    return bytes_of(listed.at(slot.position));
}

nb::bytes segment_digest(const ManifestVerifier& verifier, std::uint64_t segment) {
    if (segment >= verifier.tree().segments() || verifier.missing_manifest(segment)) {
        throw nb::value_error("no received manifest lists this segment: add its manifest first");
    }
    return digest_at(verifier, verifier.tree().slot_of_segment(segment));
}

nb::bytes manifest_digest(const ManifestVerifier& verifier, std::uint64_t manifest) {
    if (manifest == 0 || manifest >= verifier.tree().manifests()) {
        throw nb::value_error("no manifest lists this one");
    }
    return digest_at(verifier, verifier.tree().slot_of_manifest(manifest));
}

std::vector<nb::bytes> build_manifests(const wire::Name& object, const nb::bytes& digests,
                                       std::uint64_t object_bytes, std::uint64_t segment_bytes) {
    security::ManifestBuilder builder(object);
    builder.set_extent({object_bytes, segment_bytes});
    for (wire::ByteView rest = view_of(digests); rest.size() >= security::kSha256Size;
         rest = rest.subspan(security::kSha256Size)) {
        security::Sha256Digest digest{};
        std::copy_n(rest.begin(), digest.size(), digest.begin());
        builder.add(digest);
    }
    PacketPool pool;
    const auto manifests = builder.build(pool, *security::make_null_signer());
    if (!manifests) throw nb::value_error("no segments, or a manifest exceeds the largest packet");
    std::vector<nb::bytes> packets;
    for (const PacketRef& manifest : *manifests) packets.push_back(bytes_of(manifest.bytes()));
    return packets;
}

}  // namespace

void bind_manifests(nb::module_& module) {
    nb::class_<ManifestVerifier>(module, "ManifestVerifier",
                                 "Checks an object's packets against its manifests.")
        .def(
            "__init__",
            [](ManifestVerifier* self, const ReceivedData& root) {
                new (self) ManifestVerifier(verifier_of(root));
            },
            nb::arg("root"), "Of a root whose signature was verified; ValueError if it is none.")
        .def_prop_ro("segments",
                     [](const ManifestVerifier& self) { return self.tree().segments(); })
        .def("missing_manifest", &ManifestVerifier::missing_manifest, nb::arg("segment"),
             "The manifest to add next so that this segment is listed; None when it is.")
        .def(
            "add_manifest",
            [](ManifestVerifier& self, const ReceivedData& manifest) {
                return self.add_manifest(manifest.view);
            },
            nb::arg("manifest"), "False when its parent does not list just these bytes.")
        .def("segment_digest", &segment_digest, nb::arg("segment"),
             "Implicit digest of a segment, whose manifest is received.")
        .def("manifest_digest", &manifest_digest, nb::arg("manifest"),
             "Implicit digest of a manifest, whose parent is received.");
    module.def("build_manifests", &build_manifests, nb::arg("object"), nb::arg("digests"),
               nb::arg("object_bytes"), nb::arg("segment_bytes"),
               "All manifests of an object, the root first and like the others unsigned.");
}

}  // namespace innet::bindings
