#pragma once
// How an object is cut into packets.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "transport/object/object_memory.hpp"
#include "transport/publish/segmentation.hpp"
#include "transport/security/keyring.hpp"
#include "transport/wire/name.hpp"

namespace innet {

struct ObjectSpec {
    wire::Name name;
    std::span<const std::uint8_t> bytes;  ///< read until the publication is complete
    std::size_t max_packet_bytes = 0;     ///< of a Data packet, at most
    /// Gets the root manifest before the publication ends. Null: nobody wants it.
    std::shared_ptr<ObjectMemory> root_into = nullptr;
    /// Keeps `bytes` as they are for as long as it is held: segments are made of them whenever they
    /// are asked for. Null: they are copied.
    std::shared_ptr<const void> lent = nullptr;
};

struct ObjectCut {
    Segmentation segmentation;
    std::uint64_t fan_out = 0;  ///< digests in one manifest
    bool within_root = false;   ///< the object is so small that its root has all of it
    bool tagged = false;        ///< its root, the only manifest, has room for its segments' tags

    /// So that no packet exceeds the limit. Nothing when the object's name leaves no room in a
    /// packet, or it has too many segments. A packet's limit counts what its content stands for.
    static std::optional<ObjectCut> of(const ObjectSpec& spec, const security::Signer& root_signer,
                                       std::uint32_t virtual_scale);

    /// Whether segments cut like this fit into packets of `spec`'s limit.
    bool fits(const ObjectSpec& spec) const;
};

}  // namespace innet
