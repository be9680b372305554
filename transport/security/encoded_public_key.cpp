#include "transport/security/encoded_public_key.hpp"

#include <openssl/err.h>
#include <openssl/obj_mac.h>
#include <openssl/x509.h>

#include <array>
#include <string_view>

#include "transport/security/openssl_handles.hpp"

namespace innet::security {

namespace {

constexpr int kMinRsaBits = 2048;
constexpr int kMaxRsaBits = 8192;  // verification takes time by the square of it

bool is_on_p256(const EVP_PKEY* key) {
    std::array<char, 64> group{};
    std::size_t size = 0;
    return EVP_PKEY_get_group_name(key, group.data(), group.size(), &size) == 1 &&
           std::string_view(group.data(), size) == SN_X9_62_prime256v1;
}

bool is_taken(wire::SignatureType type, const EVP_PKEY* key) {
    switch (type) {
        case wire::SignatureType::kEcdsaP256:
            return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC && is_on_p256(key);
        case wire::SignatureType::kRsa:
            return EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA &&
                   EVP_PKEY_get_bits(key) >= kMinRsaBits && EVP_PKEY_get_bits(key) <= kMaxRsaBits;
        default:
            return false;
    }
}

}  // namespace

struct EncodedPublicKey::Context {
    wire::SignatureType type;
    KeyHandle key;
    DigestContext context{require(EVP_MD_CTX_new())};
};

EncodedPublicKey::EncodedPublicKey(std::unique_ptr<Context> context)
    : context_(std::move(context)) {}
EncodedPublicKey::~EncodedPublicKey() = default;

std::unique_ptr<EncodedPublicKey> EncodedPublicKey::from_der(wire::SignatureType type,
                                                             wire::ByteView der) {
    const std::uint8_t* at = der.data();
    KeyHandle key(d2i_PUBKEY(nullptr, &at, static_cast<long>(der.size())));
    ERR_clear_error();  // a malformed remote key is not an error of this process
    if (!key || at != der.data() + der.size() || !is_taken(type, key.get())) return nullptr;
    auto context = std::make_unique<Context>();
    context->type = type;
    context->key = std::move(key);
    return std::unique_ptr<EncodedPublicKey>(new EncodedPublicKey(std::move(context)));
}

wire::SignatureType EncodedPublicKey::type() const { return context_->type; }

bool EncodedPublicKey::verify(wire::ByteView message, wire::ByteView signature) {
    EVP_MD_CTX* context = context_->context.get();
    const bool valid =
        EVP_MD_CTX_reset(context) == 1 &&
        EVP_DigestVerifyInit(context, nullptr, EVP_sha256(), nullptr, context_->key.get()) == 1 &&
        EVP_DigestVerify(context, signature.data(), signature.size(), message.data(),
                         message.size()) == 1;
    ERR_clear_error();
    return valid;
}

}  // namespace innet::security
