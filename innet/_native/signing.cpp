#include "innet/_native/signing.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>

#include "innet/_native/name_argument.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

wire::SignatureType type_from_text(const std::string& text) {
    if (text == "none") return wire::SignatureType::kNull;
    if (text == "digest") return wire::SignatureType::kDigestSha256;
    if (text == "hmac") return wire::SignatureType::kHmacSha256;
    if (text == "ed25519") return wire::SignatureType::kEd25519;
    if (text == "gmac") return wire::SignatureType::kGmac;
    throw nb::value_error("signature type must be 'none', 'digest', 'hmac', 'ed25519' or 'gmac'");
}

SigningKey make_key(const std::string& type, const std::string& name, nb::bytes secret,
                    nb::bytes salt) {
    SigningKey key;
    key.type = type_from_text(type);
    if (!name.empty()) {
        key.name = name_from_uri(name);
    }
    const auto* bytes = static_cast<const std::uint8_t*>(secret.data());
    key.secret.assign(bytes, bytes + secret.size());
    if (salt.size() > key.salt.size()) {
        throw nb::value_error("a salt has at most 6 bytes");
    }
    const auto* salt_bytes = static_cast<const std::uint8_t*>(salt.data());
    std::copy(salt_bytes, salt_bytes + salt.size(), key.salt.begin());
    return key;
}

}  // namespace

std::unique_ptr<security::Signer> make_signer(const SigningKey& key) {
    std::unique_ptr<security::Signer> signer;
    switch (key.type) {
        case wire::SignatureType::kDigestSha256:
            signer = security::make_digest_signer();
            break;
        case wire::SignatureType::kHmacSha256:
            signer = security::make_hmac_signer(key.name, key.secret);
            break;
        case wire::SignatureType::kEd25519:
            signer = security::make_ed25519_signer(key.name, key.secret);
            break;
        case wire::SignatureType::kGmac:
            signer = security::make_gmac_signer(key.name, key.secret, key.salt);
            break;
        case wire::SignatureType::kNull:
            signer = security::make_null_signer();
            break;
        case wire::SignatureType::kEcdsaP256:
            break;
    }
    if (!signer) {
        throw nb::value_error("the signing key is malformed");
    }
    return signer;
}

bool add_key(security::Keyring& keyring, const SigningKey& key, const wire::Name& scope) {
    if (key.type == wire::SignatureType::kNull) {
        keyring.accept_unsigned(true);
        return true;
    }
    if (key.type == wire::SignatureType::kDigestSha256) {
        keyring.accept_digest(true);
        return true;
    }
    return keyring.add(key.type, key.name, key.secret, scope);
}

security::Keyring make_keyring(const std::vector<SigningKey>& keys) {
    security::Keyring keyring;
    for (const SigningKey& key : keys) {
        if (!add_key(keyring, key)) {
            throw nb::value_error("a trusted key is malformed");
        }
    }
    return keyring;
}

void bind_signing(nb::module_& module) {
    nb::class_<SigningKey>(module, "SigningKey", "A key to sign or to verify with.")
        .def(
            "__init__",
            [](SigningKey* self, const std::string& type, const std::string& name, nb::bytes secret,
               nb::bytes salt) { new (self) SigningKey(make_key(type, name, secret, salt)); },
            nb::arg("type"), nb::arg("name") = "", nb::arg("secret") = nb::bytes("", 0),
            nb::arg("salt") = nb::bytes("", 0));
}

}  // namespace innet::bindings
