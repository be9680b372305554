#pragma once
// Owners of OpenSSL's objects.

#include <openssl/evp.h>

#include <memory>
#include <new>

namespace innet::security {

template <auto Free>
struct OpensslDeleter {
    template <typename T>
    void operator()(T* object) const {
        Free(object);
    }
};

using CipherHandle = std::unique_ptr<EVP_CIPHER, OpensslDeleter<EVP_CIPHER_free>>;
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, OpensslDeleter<EVP_CIPHER_CTX_free>>;
using DigestHandle = std::unique_ptr<EVP_MD, OpensslDeleter<EVP_MD_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, OpensslDeleter<EVP_MD_CTX_free>>;
using MacHandle = std::unique_ptr<EVP_MAC, OpensslDeleter<EVP_MAC_free>>;
using MacContext = std::unique_ptr<EVP_MAC_CTX, OpensslDeleter<EVP_MAC_CTX_free>>;
using KeyHandle = std::unique_ptr<EVP_PKEY, OpensslDeleter<EVP_PKEY_free>>;

/// For set-up, never per packet: OpenSSL gives null or 0 when memory (or the algorithm) is missing.
template <typename T>
T require(T object) {
    if (!object) throw std::bad_alloc();
    return object;
}

}  // namespace innet::security
