#pragma once
// Ed25519 (RFC 8032), by libsodium if found at build time, else by OpenSSL, which takes twice the
// time.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "transport/wire/tlv.hpp"

namespace innet::security {

inline constexpr std::size_t kEd25519SignatureSize = 64;
inline constexpr std::size_t kEd25519KeySize = 32;

/// Name and version of the library in use.
std::string ed25519_library();

/// A private key. Confined to one thread.
class Ed25519PrivateKey {
  public:
    /// Null when the seed does not have 32 bytes.
    static std::unique_ptr<Ed25519PrivateKey> from_seed(wire::ByteView seed);
    ~Ed25519PrivateKey();

    void sign(wire::ByteView message, std::span<std::uint8_t, kEd25519SignatureSize> signature);

  private:
    struct Context;
    explicit Ed25519PrivateKey(std::unique_ptr<Context> context);
    std::unique_ptr<Context> context_;
};

/// A public key. Confined to one thread.
class Ed25519PublicKey {
  public:
    /// Null when the key does not have 32 bytes.
    static std::unique_ptr<Ed25519PublicKey> from_bytes(wire::ByteView key);
    ~Ed25519PublicKey();

    bool verify(wire::ByteView message, wire::ByteView signature);

  private:
    struct Context;
    explicit Ed25519PublicKey(std::unique_ptr<Context> context);
    std::unique_ptr<Context> context_;
};

}  // namespace innet::security
