#pragma once
// Signatures of Interests (NDN Packet Format v0.3, section 5.4). Forwarders ignore them; a node
// that executes a command Interest verifies them.

#include <array>
#include <cstdint>
#include <optional>

#include "transport/wire/data.hpp"
#include "transport/wire/interest.hpp"
#include "transport/wire/name.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::wire {

/// InterestSignatureInfo. Also reads the SignatureInfo in the name of older signed
/// Interests.
struct InterestSignatureInfo {
    SignatureType type = SignatureType::kDigestSha256;
    NameView key_name;                      ///< KeyLocator's name; empty when there is none
    ByteView nonce;                         ///< SignatureNonce; empty when there is none
    std::optional<std::uint64_t> time_ms;   ///< SignatureTime: since 1970
    std::optional<std::uint64_t> sequence;  ///< SignatureSeqNum

    /// From the element's value; nothing when it is malformed.
    static std::optional<InterestSignatureInfo> parse(ByteView value);
};

/// The signature of an Interest and the bytes it covers. Views into the Interest.
struct InterestSignature {
    InterestSignatureInfo info;
    ByteView value;
    /// The signed bytes: the name's components before the digest of the parameters, then
    /// ApplicationParameters up to InterestSignatureValue.
    std::array<ByteView, 2> signed_parts;

    /// Nothing when the Interest is not signed, when its signature is malformed, or when its name
    /// does not end with the digest of its parameters, as that of a signed one must.
    static std::optional<InterestSignature> read(const InterestView& interest);
};

}  // namespace innet::wire
