#pragma once
// SHA-256 of several messages at once by Intel's multi-buffer library (ipsec-mb), if found at build
// time.

#include <span>
#include <vector>

#include "transport/security/hash_job.hpp"

namespace innet::security {

/// A way to hash several messages at once, each in a lane of the CPU's registers.
struct Sha256Lanes {
    std::size_t count = 0;
    /// Empty lanes cost as much as full ones: below so many, the next way is faster.
    double worth_from = 0;
};

/// What suits this CPU, the most lanes first. Empty where the module lacks the library, or OpenSSL
/// is always faster.
const std::vector<Sha256Lanes>& sha256_lanes();

/// Maximum size of a message in a lane.
inline constexpr std::size_t kMaxLaneBytes = 65'534;

/// Fills in the digests by `sha256_lanes()[which]`: at most as many as there are lanes, each of at
/// most `kMaxLaneBytes`. A thread keeps the library's state (200 KB) from its first call.
void digest_in_lanes(std::size_t which, std::span<HashJob* const> jobs);

}  // namespace innet::security
