#include "transport/security/hmac_sha256.hpp"

#include <openssl/core_names.h>
#include <openssl/params.h>

#include <cstdlib>
#include <string>

#include "transport/security/openssl_handles.hpp"

namespace innet::security {

struct HmacSha256::Context {
    MacHandle algorithm{require(EVP_MAC_fetch(nullptr, "HMAC", nullptr))};
    MacContext context{require(EVP_MAC_CTX_new(algorithm.get()))};
};

HmacSha256::HmacSha256(wire::ByteView secret) : context_(std::make_unique<Context>()) {
    std::string digest_name = "SHA256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest_name.data(), 0),
        OSSL_PARAM_construct_end(),
    };
    require(EVP_MAC_init(context_->context.get(), secret.data(), secret.size(), parameters));
}

HmacSha256::~HmacSha256() = default;

Sha256Digest HmacSha256::tag(wire::ByteView message) {
    Sha256Digest tag;
    std::size_t size = 0;
    EVP_MAC_CTX* context = context_->context.get();
    // Without a key, init restores the state after the key's own block.
    if (EVP_MAC_init(context, nullptr, 0, nullptr) != 1 ||
        EVP_MAC_update(context, message.data(), message.size()) != 1 ||
        EVP_MAC_final(context, tag.data(), &size, tag.size()) != 1) {
        std::abort();  // only a broken OpenSSL fails here
    }
    return tag;
}

}  // namespace innet::security
