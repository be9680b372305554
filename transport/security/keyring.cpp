#include "transport/security/keyring.hpp"

#include <openssl/crypto.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "transport/security/ed25519.hpp"
#include "transport/security/encoded_public_key.hpp"
#include "transport/security/gmac.hpp"
#include "transport/security/hmac_sha256.hpp"
#include "transport/security/manifest.hpp"
#include "transport/security/sha256.hpp"

namespace innet::security {

namespace {

bool equal_in_constant_time(wire::ByteView a, wire::ByteView b) {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

/// Symmetric key types: every verifier can also sign.
bool is_shared(wire::SignatureType type) {
    return type == wire::SignatureType::kHmacSha256 || type == wire::SignatureType::kGmac;
}

bool is_keyless(wire::SignatureType type) {
    return type == wire::SignatureType::kNull || type == wire::SignatureType::kDigestSha256;
}

/// One key's way of checking a signature.
class Verifier {
  public:
    virtual ~Verifier() = default;
    virtual wire::SignatureType type() const = 0;
    virtual bool verify(wire::ByteView signed_portion, wire::ByteView signature) = 0;
};

class HmacVerifier final : public Verifier {
  public:
    explicit HmacVerifier(wire::ByteView secret) : hmac_(secret) {}
    wire::SignatureType type() const override { return wire::SignatureType::kHmacSha256; }
    bool verify(wire::ByteView signed_portion, wire::ByteView signature) override {
        return equal_in_constant_time(hmac_.tag(signed_portion), signature);
    }

  private:
    HmacSha256 hmac_;
};

class Ed25519Verifier final : public Verifier {
  public:
    explicit Ed25519Verifier(std::unique_ptr<Ed25519PublicKey> key) : key_(std::move(key)) {}
    wire::SignatureType type() const override { return wire::SignatureType::kEd25519; }
    bool verify(wire::ByteView signed_portion, wire::ByteView signature) override {
        return key_->verify(signed_portion, signature);
    }

  private:
    std::unique_ptr<Ed25519PublicKey> key_;
};

/// Verifies with the private key: Ed25519 is deterministic (RFC 8032, section 5.1.6), and signing
/// again takes half the time of verifying. A signature that differs is verified normally.
class Ed25519PairVerifier final : public Verifier {
  public:
    Ed25519PairVerifier(std::unique_ptr<Ed25519PrivateKey> private_key,
                        std::unique_ptr<Ed25519PublicKey> public_key)
        : private_(std::move(private_key)), public_(std::move(public_key)) {}
    wire::SignatureType type() const override { return wire::SignatureType::kEd25519; }
    bool verify(wire::ByteView signed_portion, wire::ByteView signature) override {
        std::array<std::uint8_t, kEd25519SignatureSize> own{};
        private_->sign(signed_portion, own);
        return equal_in_constant_time(own, signature) || public_->verify(signed_portion, signature);
    }

  private:
    std::unique_ptr<Ed25519PrivateKey> private_;
    std::unique_ptr<Ed25519PublicKey> public_;
};

class GmacVerifier final : public Verifier {
  public:
    explicit GmacVerifier(wire::ByteView secret) : gmac_(secret) {}
    wire::SignatureType type() const override { return wire::SignatureType::kGmac; }
    bool verify(wire::ByteView signed_portion, wire::ByteView signature) override {
        if (signature.size() != kGmacIvSize + kGmacTagSize) return false;
        const GmacTag tag = gmac_.tag(signature.first<kGmacIvSize>(), signed_portion);
        return equal_in_constant_time(tag, signature.subspan(kGmacIvSize));
    }

  private:
    Gmac gmac_;
};

class EncodedKeyVerifier final : public Verifier {
  public:
    explicit EncodedKeyVerifier(std::unique_ptr<EncodedPublicKey> key) : key_(std::move(key)) {}
    wire::SignatureType type() const override { return key_->type(); }
    bool verify(wire::ByteView signed_portion, wire::ByteView signature) override {
        return key_->verify(signed_portion, signature);
    }

  private:
    std::unique_ptr<EncodedPublicKey> key_;
};

std::unique_ptr<Verifier> make_ed25519_verifier(wire::ByteView key) {
    auto public_key = Ed25519PublicKey::from_bytes(key.last(std::min(key.size(), kEd25519KeySize)));
    if (!public_key || key.size() == kEd25519KeySize) {
        return public_key ? std::make_unique<Ed25519Verifier>(std::move(public_key)) : nullptr;
    }
    auto private_key = Ed25519PrivateKey::from_seed(key.first(key.size() - kEd25519KeySize));
    if (!private_key) return nullptr;
    std::array<std::uint8_t, kEd25519SignatureSize> trial{};
    private_key->sign(key, trial);
    if (!public_key->verify(key, trial)) return nullptr;  // halves of two keys
    return std::make_unique<Ed25519PairVerifier>(std::move(private_key), std::move(public_key));
}

/// Null when the key is malformed or its type has no keys here.
std::unique_ptr<Verifier> make_verifier(wire::SignatureType type, wire::ByteView key) {
    switch (type) {
        case wire::SignatureType::kHmacSha256:
            return key.empty() ? nullptr : std::make_unique<HmacVerifier>(key);
        case wire::SignatureType::kGmac:
            return Gmac::is_key_size(key.size()) ? std::make_unique<GmacVerifier>(key) : nullptr;
        case wire::SignatureType::kEd25519:
            return make_ed25519_verifier(key);
        case wire::SignatureType::kEcdsaP256:
        case wire::SignatureType::kRsa: {
            auto public_key = EncodedPublicKey::from_der(type, key);
            if (!public_key) return nullptr;
            return std::make_unique<EncodedKeyVerifier>(std::move(public_key));
        }
        default:
            return nullptr;
    }
}

wire::NameView view_of(wire::NameView name) { return name; }
wire::NameView view_of(const wire::Name& name) { return name.view(); }

/// Hash and equality over owned names and views alike, so that a look-up copies nothing.
struct KeyNameHash {
    using is_transparent = void;
    std::size_t operator()(const auto& name) const { return view_of(name).hash(); }
};

struct KeyNameEqual {
    using is_transparent = void;
    bool operator()(const auto& a, const auto& b) const { return view_of(a) == view_of(b); }
};

/// Names, and whether another lies below one of them: by one look-up for each length there is.
class NamePrefixSet {
  public:
    explicit NamePrefixSet(std::vector<wire::Name> names) {
        for (wire::Name& name : names) {
            const std::size_t length = name.view().size();
            if (std::ranges::find(lengths_, length) == lengths_.end()) lengths_.push_back(length);
            names_.insert(std::move(name));
        }
    }

    bool covers(wire::NameView name) const {
        const std::size_t size = name.size();
        return std::ranges::any_of(lengths_, [&](std::size_t length) {
            return length <= size && names_.contains(name.prefix(length));
        });
    }

  private:
    std::unordered_set<wire::Name, KeyNameHash, KeyNameEqual> names_;
    std::vector<std::size_t> lengths_;
};

}  // namespace

struct Keyring::State {
    struct Key {
        wire::Name scope;  ///< empty: every name
        std::optional<NamePrefixSet> names;
        TimePoint expiry;
        std::unique_ptr<Verifier> verifier;

        bool vouches_for(wire::NameView name) const {
            return scope.view().is_prefix_of(name) && (!names || names->covers(name));
        }
    };

    void remove_keys(const auto& condition) {
        for (auto& [name, of_name] : keys) std::erase_if(of_name, condition);
        std::erase_if(keys, [](const auto& entry) { return entry.second.empty(); });
    }

    std::unordered_map<wire::Name, std::vector<Key>, KeyNameHash, KeyNameEqual> keys;
    Sha256 sha256;
    bool accept_digest = false;
    bool accept_unsigned = false;
};

Keyring::Keyring() : state_(std::make_unique<State>()) {}
Keyring::~Keyring() = default;
Keyring::Keyring(Keyring&&) noexcept = default;
Keyring& Keyring::operator=(Keyring&&) noexcept = default;

bool Keyring::add(wire::SignatureType type, const wire::Name& key_name, wire::ByteView key,
                  KeyRights rights) {
    auto verifier = make_verifier(type, key);
    if (!verifier) return false;
    std::vector<State::Key>& keys = state_->keys[key_name];
    std::erase_if(keys, [&](const State::Key& known) { return known.scope == rights.scope; });
    std::optional<NamePrefixSet> names;
    if (rights.names) names.emplace(std::move(*rights.names));
    keys.push_back({std::move(rights.scope), std::move(names), rights.expiry, std::move(verifier)});
    return true;
}

bool Keyring::add(wire::SignatureType type, const wire::Name& key_name, wire::ByteView key,
                  const wire::Name& scope) {
    return add(type, key_name, key, KeyRights{.scope = scope});
}

void Keyring::remove(const wire::Name& key_name) { state_->keys.erase(key_name); }

void Keyring::remove_scope(const wire::Name& scope) {
    state_->remove_keys([&](const State::Key& key) { return key.scope == scope; });
}

void Keyring::remove_scopes_below(const wire::Name& prefix) {
    state_->remove_keys([view = prefix.view()](const State::Key& key) {
        return !key.scope.view().empty() && view.is_prefix_of(key.scope.view());
    });
}

void Keyring::accept_digest(bool accept) { state_->accept_digest = accept; }
void Keyring::accept_unsigned(bool accept) { state_->accept_unsigned = accept; }

// A shared key must not sign an object's root: any member could publish under another's
// name, and caches on the path would keep it. A digest, or no signature, identifies no
// producer.
Verdict Keyring::verify(const wire::DataView& data, TimePoint now, bool mac_waived) const {
    const wire::SignatureType type = data.signature_type();
    if (is_shared(type) && is_manifest(data.name())) return Verdict::kOutOfScope;
    if (is_keyless(type) && is_root_manifest(data.name())) return Verdict::kUnknownKey;
    return verify({.name = data.name(),
                   .type = data.signature_type(),
                   .key_name = data.key_name(),
                   .signed_portion = data.signed_portion(),
                   .signature = data.signature_value(),
                   .mac_waived = mac_waived},
                  now);
}

Verdict Keyring::verify(const SignedBytes& bytes, TimePoint now) const {
    if (bytes.type == wire::SignatureType::kNull) {
        return state_->accept_unsigned ? Verdict::kValid : Verdict::kUnknownKey;
    }
    if (bytes.type == wire::SignatureType::kDigestSha256) {
        if (!state_->accept_digest) return Verdict::kUnknownKey;
        const Sha256Digest digest = state_->sha256.digest(bytes.signed_portion);
        return equal_in_constant_time(digest, bytes.signature) ? Verdict::kValid
                                                               : Verdict::kInvalid;
    }
    const auto found = state_->keys.find(bytes.key_name);
    if (found == state_->keys.end()) return Verdict::kUnknownKey;
    for (const State::Key& key : found->second) {
        if (!key.vouches_for(bytes.name)) continue;
        if (key.expiry <= now) return Verdict::kExpired;
        // A known key never vouches for a signature of another type than its own.
        const bool valid =
            key.verifier->type() == bytes.type &&
            (bytes.mac_waived || key.verifier->verify(bytes.signed_portion, bytes.signature));
        return valid ? Verdict::kValid : Verdict::kInvalid;
    }
    return Verdict::kOutOfScope;
}

}  // namespace innet::security
