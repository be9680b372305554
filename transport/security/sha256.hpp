#pragma once
// SHA-256 (FIPS 180-4) with a cached context, which the first digest makes.

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/wire/tlv.hpp"

namespace innet::security {

inline constexpr std::size_t kSha256Size = 32;
using Sha256Digest = std::array<std::uint8_t, kSha256Size>;

/// Hashes one message after the other. Confined to one thread.
class Sha256 {
  public:
    Sha256();
    ~Sha256();
    Sha256(Sha256&&) noexcept;
    Sha256& operator=(Sha256&&) noexcept;

    Sha256Digest digest(wire::ByteView message) { return digest({&message, 1}); }
    /// Of the parts one after the other.
    Sha256Digest digest(std::span<const wire::ByteView> parts);

  private:
    struct Context;
    std::unique_ptr<Context> context_;
};

}  // namespace innet::security
