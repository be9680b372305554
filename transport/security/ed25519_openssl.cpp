#include <openssl/crypto.h>

#include <cstdlib>

#include "transport/security/ed25519.hpp"
#include "transport/security/openssl_handles.hpp"

namespace innet::security {

struct Ed25519PrivateKey::Context {
    KeyHandle key;
    DigestContext context{require(EVP_MD_CTX_new())};
};

struct Ed25519PublicKey::Context {
    KeyHandle key;
    DigestContext context{require(EVP_MD_CTX_new())};
};

std::string ed25519_library() { return OpenSSL_version(OPENSSL_VERSION); }

Ed25519PrivateKey::Ed25519PrivateKey(std::unique_ptr<Context> context)
    : context_(std::move(context)) {}
Ed25519PrivateKey::~Ed25519PrivateKey() = default;

Ed25519PublicKey::Ed25519PublicKey(std::unique_ptr<Context> context)
    : context_(std::move(context)) {}
Ed25519PublicKey::~Ed25519PublicKey() = default;

std::unique_ptr<Ed25519PrivateKey> Ed25519PrivateKey::from_seed(wire::ByteView seed) {
    if (seed.size() != kEd25519KeySize) return nullptr;
    auto context = std::make_unique<Context>();
    context->key.reset(
        require(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size())));
    return std::unique_ptr<Ed25519PrivateKey>(new Ed25519PrivateKey(std::move(context)));
}

std::unique_ptr<Ed25519PublicKey> Ed25519PublicKey::from_bytes(wire::ByteView key) {
    if (key.size() != kEd25519KeySize) return nullptr;
    auto context = std::make_unique<Context>();
    context->key.reset(
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.data(), key.size()));
    if (!context->key) return nullptr;
    return std::unique_ptr<Ed25519PublicKey>(new Ed25519PublicKey(std::move(context)));
}

void Ed25519PrivateKey::sign(wire::ByteView message,
                             std::span<std::uint8_t, kEd25519SignatureSize> signature) {
    EVP_MD_CTX* context = context_->context.get();
    std::size_t size = signature.size();
    if (EVP_MD_CTX_reset(context) != 1 ||
        EVP_DigestSignInit(context, nullptr, nullptr, nullptr, context_->key.get()) != 1 ||
        EVP_DigestSign(context, signature.data(), &size, message.data(), message.size()) != 1) {
        std::abort();  // only a broken OpenSSL fails here
    }
}

bool Ed25519PublicKey::verify(wire::ByteView message, wire::ByteView signature) {
    if (signature.size() != kEd25519SignatureSize) return false;
    EVP_MD_CTX* context = context_->context.get();
    return EVP_MD_CTX_reset(context) == 1 &&
           EVP_DigestVerifyInit(context, nullptr, nullptr, nullptr, context_->key.get()) == 1 &&
           EVP_DigestVerify(context, signature.data(), signature.size(), message.data(),
                            message.size()) == 1;
}

}  // namespace innet::security
