#include "transport/security/gmac.hpp"

#include <openssl/core_names.h>
#include <openssl/params.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "transport/security/openssl_handles.hpp"

namespace innet::security {

namespace {

/// Encrypts block after block on its own, which is all that GMAC needs of AES.
class AesBlock {
  public:
    explicit AesBlock(wire::ByteView key)
        : cipher_(require(EVP_CIPHER_fetch(
              nullptr, key.size() == 16 ? "AES-128-ECB" : "AES-256-ECB", nullptr))) {
        require(EVP_EncryptInit_ex2(context_.get(), cipher_.get(), key.data(), nullptr, nullptr));
        require(EVP_CIPHER_CTX_set_padding(context_.get(), 0));
    }

    GhashBlock encrypt(const GhashBlock& block) {
        GhashBlock encrypted;
        int written = 0;
        const int ok = EVP_EncryptUpdate(context_.get(), encrypted.data(), &written, block.data(),
                                         static_cast<int>(block.size()));
        if (ok != 1) std::abort();  // only a broken OpenSSL fails here
        return encrypted;
    }

  private:
    CipherHandle cipher_;
    CipherContext context_{require(EVP_CIPHER_CTX_new())};
};

}  // namespace

class Gmac::Algorithm {
  public:
    virtual ~Algorithm() = default;
    virtual GmacTag tag(GmacIv iv, wire::ByteView message) = 0;
};

/// SP 800-38D, 7.1: the hash, masked with the encrypted IV.
class Gmac::Wide final : public Algorithm {
  public:
    explicit Wide(wire::ByteView key) : aes_(key), ghash_(aes_.encrypt(GhashBlock{})) {}

    GmacTag tag(GmacIv iv, wire::ByteView message) override {
        GhashBlock counter{};
        std::ranges::copy(iv, counter.begin());
        counter.back() = 1;
        const GhashBlock mask = aes_.encrypt(counter);
        GmacTag tag = ghash_.hash(message);
        for (std::size_t i = 0; i < tag.size(); ++i) tag[i] ^= mask[i];
        return tag;
    }

  private:
    AesBlock aes_;
    WideGhash ghash_;
};

class Gmac::Openssl final : public Algorithm {
  public:
    explicit Openssl(wire::ByteView key)
        : cipher_(require(EVP_CIPHER_fetch(
              nullptr, key.size() == 16 ? "AES-128-GCM" : "AES-256-GCM", nullptr))) {
        require(EVP_EncryptInit_ex2(context_.get(), cipher_.get(), key.data(), nullptr, nullptr));
    }

    GmacTag tag(GmacIv iv, wire::ByteView message) override {
        EVP_CIPHER_CTX* context = context_.get();
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

  private:
    CipherHandle cipher_;
    CipherContext context_{require(EVP_CIPHER_CTX_new())};
};

Gmac::Gmac(wire::ByteView key, bool wide) {
    if (wide) {
        algorithm_ = std::make_unique<Wide>(key);
    } else {
        algorithm_ = std::make_unique<Openssl>(key);
    }
}

Gmac::~Gmac() = default;

GmacTag Gmac::tag(GmacIv iv, wire::ByteView message) { return algorithm_->tag(iv, message); }

}  // namespace innet::security
