#pragma once
// SHA-256 (FIPS 180-4) of two messages at once, for CPUs with instructions for it (x86's SHA-NI).
// Such an instruction waits for the one before it: two messages fill each other's gaps.

#include <array>
#include <span>

#include "transport/security/sha256.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::security {

/// Whether this CPU can; without it, `digest_pair` may not be called.
bool can_digest_pairs();

/// The digests of two messages, each given as consecutive parts. Messages of similar length gain
/// most: the excess of the longer one is hashed alone.
std::array<Sha256Digest, 2> digest_pair(std::span<const wire::ByteView> first,
                                        std::span<const wire::ByteView> second);

}  // namespace innet::security
