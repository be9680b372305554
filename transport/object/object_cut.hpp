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
    /// Receives the root manifest before the publication ends. Null: not needed.
    std::shared_ptr<ObjectMemory> root_into = nullptr;
    /// Owner that keeps `bytes` unchanged while it is held: segments are encoded from them on
    /// request. Null: the bytes are copied.
    std::shared_ptr<const void> lent = nullptr;
    /// The root is published without its signature, if it has a tag: see `security::is_draft`.
    bool draft = false;
};

struct ObjectCut {
    Segmentation segmentation;
    std::uint64_t fan_out = 0;  ///< digests in one manifest
    bool within_root = false;   ///< the object is so small that its root contains it
    bool tagged = false;        ///< its root, the only manifest, contains its segments' tags

    /// Chooses a cut in which no packet exceeds the limit, virtual bytes included. Nothing when the
    /// object's name leaves no space in a packet, or the object has too many segments.
    static std::optional<ObjectCut> of(const ObjectSpec& spec, const security::Signer& root_signer,
                                       std::uint32_t virtual_scale);

    /// Whether segments cut like this fit into packets of `spec`'s limit.
    bool fits(const ObjectSpec& spec) const;
};

}  // namespace innet
