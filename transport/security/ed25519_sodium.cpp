#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "transport/security/ed25519.hpp"

namespace innet::security {

struct Ed25519PrivateKey::Context {
    Context() = default;
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context() { sodium_memzero(key.data(), key.size()); }

    std::array<std::uint8_t, crypto_sign_SECRETKEYBYTES> key{};
};

struct Ed25519PublicKey::Context {
    std::array<std::uint8_t, crypto_sign_PUBLICKEYBYTES> key{};
};

namespace {

/// Selects the implementation for the CPU; idempotent and thread-safe.
void require_sodium() {
    if (sodium_init() < 0) std::abort();  // only a broken system fails here
}

}  // namespace

std::string ed25519_library() { return std::string("libsodium ") + sodium_version_string(); }

Ed25519PrivateKey::Ed25519PrivateKey(std::unique_ptr<Context> context)
    : context_(std::move(context)) {}
Ed25519PrivateKey::~Ed25519PrivateKey() = default;

Ed25519PublicKey::Ed25519PublicKey(std::unique_ptr<Context> context)
    : context_(std::move(context)) {}
Ed25519PublicKey::~Ed25519PublicKey() = default;

std::unique_ptr<Ed25519PrivateKey> Ed25519PrivateKey::from_seed(wire::ByteView seed) {
    if (seed.size() != kEd25519KeySize) return nullptr;
    require_sodium();
    auto context = std::make_unique<Context>();
    std::array<std::uint8_t, crypto_sign_PUBLICKEYBYTES> unused{};
    crypto_sign_seed_keypair(unused.data(), context->key.data(), seed.data());
    return std::unique_ptr<Ed25519PrivateKey>(new Ed25519PrivateKey(std::move(context)));
}

std::unique_ptr<Ed25519PublicKey> Ed25519PublicKey::from_bytes(wire::ByteView key) {
    if (key.size() != kEd25519KeySize) return nullptr;
    require_sodium();
    auto context = std::make_unique<Context>();
    std::ranges::copy(key, context->key.begin());
    return std::unique_ptr<Ed25519PublicKey>(new Ed25519PublicKey(std::move(context)));
}

void Ed25519PrivateKey::sign(wire::ByteView message,
                             std::span<std::uint8_t, kEd25519SignatureSize> signature) {
    crypto_sign_detached(signature.data(), nullptr, message.data(), message.size(),
                         context_->key.data());
}

bool Ed25519PublicKey::verify(wire::ByteView message, wire::ByteView signature) {
    return signature.size() == kEd25519SignatureSize &&
           crypto_sign_verify_detached(signature.data(), message.data(), message.size(),
                                       context_->key.data()) == 0;
}

}  // namespace innet::security
