#pragma once
// Keyed tags of an object's segments and of its root manifest: for holders of the key
// they replace digests and a signature, in a tenth of the time (docs/protocol.md,
// "Tags").

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/security/gmac.hpp"
#include "transport/security/hmac_sha256.hpp"
#include "transport/wire/data.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::security {

inline constexpr std::size_t kSegmentTagSize = 16;
using SegmentTag = std::array<std::uint8_t, kSegmentTagSize>;

/// A Data packet in two: its Content, and all around that.
struct PacketParts {
    wire::ByteView head;  ///< up to the Content's first byte
    wire::ByteView content;
    wire::ByteView tail;

    static PacketParts of(const wire::DataView& data);
};

/// A universal hash of the Content (GHASH), and a pseudo-random function (HMAC-SHA256) of that hash
/// and all around the Content: a MAC without nonces (Shoup, "On Fast and Provably Secure Message
/// Authentication Based on Universal Hashing", 1996, section 3). Confined to one thread.
class SegmentTagger {
  public:
    static constexpr std::size_t kKeySize = 64;
    using Key = std::span<const std::uint8_t, kKeySize>;

    /// The first half of `key` is the hash's, the second the function's.
    explicit SegmentTagger(Key key);

    SegmentTag tag(const PacketParts& packet);
    /// Whether `tag` is the packet's tag; constant time.
    bool holds(const PacketParts& packet, const SegmentTag& tag);
    /// The tagged parts of a root manifest: its name, and its Content before the tag. They never
    /// equal a segment's parts, because a packet starts with another type than a name.
    static PacketParts of_root(wire::NameView name, wire::ByteView content);

  private:
    Gmac hash_;
    HmacSha256 function_;
    std::vector<std::uint8_t> message_;  ///< of the function; kept for its capacity
};

}  // namespace innet::security
