#pragma once
// AES-GMAC: AES-GCM (NIST SP 800-38D) with the message as associated data and no plaintext.

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/wire/tlv.hpp"

namespace innet::security {

inline constexpr std::size_t kGmacIvSize = 12;
inline constexpr std::size_t kGmacTagSize = 16;
using GmacIv = std::span<const std::uint8_t, kGmacIvSize>;
using GmacTag = std::array<std::uint8_t, kGmacTagSize>;

/// Authenticates one message after the other; the key schedule and the hash tables are kept, only
/// the IV changes. Confined to one thread.
class Gmac {
  public:
    static bool is_key_size(std::size_t size) { return size == 16 || size == 32; }

    /// `key` is AES-128's or AES-256's (`is_key_size`).
    explicit Gmac(wire::ByteView key);
    ~Gmac();

    GmacTag tag(GmacIv iv, wire::ByteView message);

  private:
    struct Context;
    std::unique_ptr<Context> context_;
};

}  // namespace innet::security
