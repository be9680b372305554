#pragma once
// Encodes the parameters of an Interest, after its other elements (NDN Packet Format v0.3, sections
// 3.2 and 5.4). For applications, not for the packet path: it allocates.

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/wire/interest_signature.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::wire {

/// ApplicationParameters and, for an Interest that will be signed, InterestSignatureInfo. The
/// signature covers the name's components without the digest, and these bytes; the signature's
/// element follows them.
std::vector<std::uint8_t> encode_parameters(ByteView parameters,
                                            const std::optional<InterestSignatureInfo>& info);

}  // namespace innet::wire
