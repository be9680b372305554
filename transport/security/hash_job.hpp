#pragma once
// One message of a batch to hash.

#include <array>

#include "transport/security/sha256.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::security {

/// A message, in up to three parts one after the other, and its digest once that is known.
struct HashJob {
    std::array<wire::ByteView, 3> parts;
    Sha256Digest digest{};

    std::size_t size() const { return parts[0].size() + parts[1].size() + parts[2].size(); }
};

}  // namespace innet::security
