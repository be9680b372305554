#pragma once
// GHASH, the universal hash of AES-GCM (NIST SP 800-38D, 6.4), for CPUs that multiply four
// polynomials in one instruction (x86's VPCLMULQDQ on 512 bits).

#include <array>
#include <cstdint>
#include <span>

#include "transport/wire/tlv.hpp"

namespace innet::security {

inline constexpr std::size_t kGhashBlockSize = 16;
using GhashBlock = std::array<std::uint8_t, kGhashBlockSize>;

/// Constant time for all keys and messages of one length: no table look-ups.
class WideGhash {
  public:
    /// Whether this CPU can; without it, no other member may be called.
    static bool supported();

    /// `subkey` is the zero block, encrypted: SP 800-38D's H.
    explicit WideGhash(const GhashBlock& subkey);

    /// The hash of `message` as associated data without a ciphertext: padded with zeros to whole
    /// blocks, then a block with its length.
    GhashBlock hash(wire::ByteView message) const;

  private:
    void raise_to_powers(const GhashBlock& subkey);

    static constexpr std::size_t kPowers = 64;  ///< blocks that share one reduction
    static constexpr std::size_t kLanes = 4;    ///< blocks that share one instruction

    /// The subkey's powers, the highest first. The zeros behind them meet the lanes of a message's
    /// last instruction that it leaves empty.
    alignas(64) std::array<std::uint8_t, (kPowers + kLanes - 1) * kGhashBlockSize> powers_{};
};

}  // namespace innet::security
