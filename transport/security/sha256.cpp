#include "transport/security/sha256.hpp"

#include <cstdlib>

#include "transport/security/openssl_handles.hpp"

namespace innet::security {

struct Sha256::Context {
    DigestHandle algorithm{require(EVP_MD_fetch(nullptr, "SHA256", nullptr))};
    DigestContext context{require(EVP_MD_CTX_new())};
};

Sha256::Sha256() = default;
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256Digest Sha256::digest(std::span<const wire::ByteView> parts) {
    if (!context_) context_ = std::make_unique<Context>();
    Sha256Digest digest;
    EVP_MD_CTX* context = context_->context.get();
    bool done = EVP_DigestInit_ex2(context, context_->algorithm.get(), nullptr) == 1;
    for (const wire::ByteView& part : parts) {
        done = done && EVP_DigestUpdate(context, part.data(), part.size()) == 1;
    }
    if (!done || EVP_DigestFinal_ex(context, digest.data(), nullptr) != 1) {
        std::abort();  // only a broken OpenSSL fails here; a made-up digest would be worse
    }
    return digest;
}

}  // namespace innet::security
