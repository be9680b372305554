#pragma once
// Keys as Python gives them.

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/security/keyring.hpp"
#include "transport/time.hpp"

namespace innet::bindings {

/// One key: to sign with (secret, salt), or to verify with (secret is the public key for Ed25519,
/// behind the seed or without it, and a SubjectPublicKeyInfo for ECDSA and RSA).
struct SigningKey {
    wire::SignatureType type = wire::SignatureType::kDigestSha256;
    wire::Name name;
    std::vector<std::uint8_t> secret;
    std::array<std::uint8_t, 6> salt{};
    std::optional<std::vector<wire::Name>> names{};  ///< to verify: those below these alone
    std::optional<Duration> valid_for{};             ///< to verify: from its installation on
    bool operator==(const SigningKey&) const = default;
};

/// Throws ValueError when the key is malformed.
std::unique_ptr<security::Signer> make_signer(const SigningKey& key);
security::Keyring make_keyring(const std::vector<SigningKey>& keys);
/// The key vouches for names below `scope` alone, when there is one; `now` is when it is installed,
/// which a key that is valid for some time needs. False when it is malformed.
[[nodiscard]] bool add_key(security::Keyring& keyring, const SigningKey& key,
                           const wire::Name& scope = wire::Name(), TimePoint now = TimePoint());

void bind_signing(nanobind::module_& module);

}  // namespace innet::bindings
