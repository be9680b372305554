#include "innet/_native/signing.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>

#include "innet/_native/name_argument.hpp"
#include "innet/_native/node_settings.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

wire::SignatureType type_from_text(const std::string& text) {
    if (text == "none") return wire::SignatureType::kNull;
    if (text == "digest") return wire::SignatureType::kDigestSha256;
    if (text == "hmac") return wire::SignatureType::kHmacSha256;
    if (text == "ed25519") return wire::SignatureType::kEd25519;
    if (text == "gmac") return wire::SignatureType::kGmac;
    if (text == "ecdsa") return wire::SignatureType::kEcdsaP256;
    if (text == "rsa") return wire::SignatureType::kRsa;
    throw nb::value_error(
        "signature type must be 'none', 'digest', 'hmac', 'ed25519', 'gmac', 'ecdsa' or 'rsa'");
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

void limit(SigningKey& key, const std::optional<std::vector<std::string>>& names,
           std::optional<double> valid_for_s) {
    if (names) {
        key.names.emplace();
        for (const std::string& name : *names) key.names->push_back(name_from_uri(name));
    }
    if (valid_for_s) key.valid_for = from_seconds(std::max(0.0, *valid_for_s));
}

/// Other scopes' names would only take memory.
std::optional<std::vector<wire::Name>> names_below(const wire::Name& scope, const SigningKey& key) {
    if (!key.names) return std::nullopt;
    std::vector<wire::Name> names;
    std::ranges::copy_if(*key.names, std::back_inserter(names), [&](const wire::Name& name) {
        return scope.view().is_prefix_of(name.view());
    });
    return names;
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
        case wire::SignatureType::kRsa:
            throw nb::value_error(
                "keys of this type only verify here: sign with an ed25519 or an hmac key");
    }
    if (!signer) {
        throw nb::value_error("the signing key is malformed");
    }
    return signer;
}

bool add_key(security::Keyring& keyring, const SigningKey& key, const wire::Name& scope,
             TimePoint now) {
    if (key.type == wire::SignatureType::kNull) {
        keyring.accept_unsigned(true);
        return true;
    }
    if (key.type == wire::SignatureType::kDigestSha256) {
        keyring.accept_digest(true);
        return true;
    }
    return keyring.add(
        key.type, key.name, key.secret,
        {scope, names_below(scope, key), key.valid_for ? now + *key.valid_for : kNever});
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
               nb::bytes salt, const std::optional<std::vector<std::string>>& names,
               std::optional<double> valid_for_s) {
                SigningKey key = make_key(type, name, secret, salt);
                limit(key, names, valid_for_s);
                new (self) SigningKey(std::move(key));
            },
            nb::arg("type"), nb::arg("name") = "", nb::arg("secret") = nb::bytes("", 0),
            nb::arg("salt") = nb::bytes("", 0), nb::arg("names") = nb::none(),
            nb::arg("valid_for_s") = nb::none(),
            "To verify, a key vouches for names below `names` alone (None: for all where it is "
            "installed), and no longer than so many seconds after its installation (None: for "
            "ever).");
}

}  // namespace innet::bindings
