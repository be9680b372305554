#pragma once
// AES-GMAC: AES-GCM (NIST SP 800-38D) with the message as associated data and no plaintext.

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/security/wide_ghash.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::security {

inline constexpr std::size_t kGmacIvSize = 12;
inline constexpr std::size_t kGmacTagSize = 16;
using GmacIv = std::span<const std::uint8_t, kGmacIvSize>;
using GmacTag = std::array<std::uint8_t, kGmacTagSize>;

/// Authenticates one message after the other; the key schedule and the hash's powers are kept, only
/// the IV changes. Confined to one thread.
class Gmac {
  public:
    static bool is_key_size(std::size_t size) { return size == 16 || size == 32; }

    /// `key` is AES-128's or AES-256's (`is_key_size`). `wide` hashes with `WideGhash` where the
    /// CPU can, and OpenSSL does the rest; otherwise it does everything.
    explicit Gmac(wire::ByteView key, bool wide = WideGhash::supported());
    ~Gmac();

    GmacTag tag(GmacIv iv, wire::ByteView message);

  private:
    class Algorithm;
    class Wide;
    class Openssl;
    std::unique_ptr<Algorithm> algorithm_;
};

}  // namespace innet::security
