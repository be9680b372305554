#pragma once
// AES-GMAC: AES-GCM (NIST SP 800-38D) with the message as associated data and no plaintext.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/wire/tlv.hpp"

namespace innet::security {

inline constexpr std::size_t kGmacIvSize = 12;
inline constexpr std::size_t kGmacTagSize = 16;
using GmacIv = std::span<const std::uint8_t, kGmacIvSize>;
using GmacTag = std::array<std::uint8_t, kGmacTagSize>;

enum class GmacLibrary { kIpsecMb, kOpenssl };

/// The libraries that this module was compiled with and that suit this CPU, the fastest first.
const std::vector<GmacLibrary>& gmac_libraries();

/// Name and version.
std::string name_of(GmacLibrary library);

/// Authenticates one message after the other; the key schedule and the hash's powers are kept, only
/// the IV changes. Confined to one thread.
class Gmac {
  public:
    /// A library's implementation.
    class Algorithm {
      public:
        virtual ~Algorithm() = default;
        /// Of a message in parts.
        virtual GmacTag tag(GmacIv iv, std::span<const wire::ByteView> parts) = 0;
    };

    static bool is_key_size(std::size_t size) { return size == 16 || size == 32; }

    /// `key` is AES-128's or AES-256's (`is_key_size`), `library` one of `gmac_libraries`.
    explicit Gmac(wire::ByteView key, GmacLibrary library = gmac_libraries().front());

    GmacTag tag(GmacIv iv, wire::ByteView message) { return tag(iv, std::span(&message, 1)); }
    GmacTag tag(GmacIv iv, std::span<const wire::ByteView> parts) {
        return algorithm_->tag(iv, parts);
    }

  private:
    std::unique_ptr<Algorithm> algorithm_;
};

}  // namespace innet::security
