#include "transport/security/gmac.hpp"

#include <openssl/core_names.h>
#include <openssl/params.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "transport/security/gmac_ipsec_mb.hpp"
#include "transport/security/openssl_handles.hpp"

namespace innet::security {

namespace {

class OpensslGmac final : public Gmac::Algorithm {
  public:
    explicit OpensslGmac(wire::ByteView key)
        : cipher_(require(EVP_CIPHER_fetch(
              nullptr, key.size() == 16 ? "AES-128-GCM" : "AES-256-GCM", nullptr))) {
        require(EVP_EncryptInit_ex2(context_.get(), cipher_.get(), key.data(), nullptr, nullptr));
    }

    GmacTag tag(GmacIv iv, std::span<const wire::ByteView> parts) override {
        EVP_CIPHER_CTX* context = context_.get();
        bool ok = EVP_EncryptInit_ex2(context, nullptr, nullptr, iv.data(), nullptr) == 1;
        int written = 0;
        for (wire::ByteView rest : parts) {
            while (!rest.empty()) {  // OpenSSL counts in int
                const auto next = rest.first(std::min<std::size_t>(rest.size(), INT_MAX));
                ok = ok && EVP_EncryptUpdate(context, nullptr, &written, next.data(),
                                             static_cast<int>(next.size())) == 1;
                rest = rest.subspan(next.size());
            }
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

}  // namespace

const std::vector<GmacLibrary>& gmac_libraries() {
    static const std::vector<GmacLibrary> libraries =
        ipsec_mb_suits_cpu() ? std::vector{GmacLibrary::kIpsecMb, GmacLibrary::kOpenssl}
                             : std::vector{GmacLibrary::kOpenssl};
    return libraries;
}

std::string name_of(GmacLibrary library) {
    return library == GmacLibrary::kIpsecMb ? ipsec_mb_name() : OpenSSL_version(OPENSSL_VERSION);
}

Gmac::Gmac(wire::ByteView key, GmacLibrary library) {
    if (library == GmacLibrary::kIpsecMb) {
        algorithm_ = make_ipsec_mb_gmac(key);
    } else {
        algorithm_ = std::make_unique<OpensslGmac>(key);
    }
}

}  // namespace innet::security
