#include "transport/security/gmac.hpp"

#include <openssl/core_names.h>
#include <openssl/params.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "transport/security/openssl_handles.hpp"

namespace innet::security {

struct Gmac::Context {
    explicit Context(std::size_t key_size)
        : cipher(require(EVP_CIPHER_fetch(nullptr, key_size == 16 ? "AES-128-GCM" : "AES-256-GCM",
                                          nullptr))) {}

    CipherHandle cipher;
    CipherContext context{require(EVP_CIPHER_CTX_new())};
};

Gmac::Gmac(wire::ByteView key) : context_(std::make_unique<Context>(key.size())) {
    require(EVP_EncryptInit_ex2(context_->context.get(), context_->cipher.get(), key.data(),
                                nullptr, nullptr));
}

Gmac::~Gmac() = default;

GmacTag Gmac::tag(GmacIv iv, wire::ByteView message) {
    EVP_CIPHER_CTX* context = context_->context.get();
    bool ok = EVP_EncryptInit_ex2(context, nullptr, nullptr, iv.data(), nullptr) == 1;
    int written = 0;
    while (!message.empty()) {  // OpenSSL counts in int
        const auto part = message.first(std::min<std::size_t>(message.size(), INT_MAX));
        ok = ok && EVP_EncryptUpdate(context, nullptr, &written, part.data(),
                                     static_cast<int>(part.size())) == 1;
        message = message.subspan(part.size());
    }
    GmacTag tag;
    std::uint8_t no_ciphertext = 0;
    OSSL_PARAM wanted[] = {
        OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, tag.data(), tag.size()),
        OSSL_PARAM_construct_end(),
    };
    ok = ok && EVP_EncryptFinal_ex(context, &no_ciphertext, &written) == 1 &&
         EVP_CIPHER_CTX_get_params(context, wanted) == 1;
    if (!ok) std::abort();  // only a broken OpenSSL fails here
    return tag;
}

}  // namespace innet::security
