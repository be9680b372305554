#pragma once
// Signs and verifies Data. A keyring holds the named keys that this node may use.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/time.hpp"
#include "transport/wire/data.hpp"
#include "transport/wire/name.hpp"

namespace innet::security {

enum class Verdict : std::uint8_t {
    kValid,
    kInvalid,     ///< the signature is not this key's, or of another type than the key
    kUnknownKey,  ///< no key of that name, or no key at all where that is not accepted
    kOutOfScope,  ///< the key vouches for other names
    kExpired,     ///< the key's time is over
};

/// Signs Data of one key. Implementations: SignatureNull (which signs nothing), DigestSha256,
/// HMAC-SHA256, Ed25519, AES-GMAC.
class Signer {
  public:
    virtual ~Signer() = default;
    virtual wire::SignatureType type() const = 0;
    virtual wire::NameView key_name() const = 0;  ///< empty for DigestSha256 and SignatureNull
    virtual std::size_t signature_size() const = 0;
    /// Writes `signature_size()` bytes over `signed_portion`. False when the key can sign no more
    /// (a GMAC nonce counter used up).
    [[nodiscard]] virtual bool sign(wire::ByteView signed_portion,
                                    std::span<std::uint8_t> signature) = 0;
    /// The same of a portion in parts. Unless overridden, false where more than the first part has
    /// bytes.
    [[nodiscard]] virtual bool sign_parts(std::span<const wire::ByteView> parts,
                                          std::span<std::uint8_t> signature);
};

std::unique_ptr<Signer> make_digest_signer();
/// For packets that a manifest lists: their signature is empty, and a keyring rejects it unless
/// configured otherwise.
std::unique_ptr<Signer> make_null_signer();
/// Null when the secret is empty.
std::unique_ptr<Signer> make_hmac_signer(wire::Name key_name, wire::ByteView secret);
/// `seed` is the 32-byte private key. Null when it is malformed.
std::unique_ptr<Signer> make_ed25519_signer(wire::Name key_name, wire::ByteView seed);
/// AES-128-GMAC or AES-256-GMAC by the secret's length (16 or 32 bytes). The signature value is
/// a 12-byte IV and a 16-byte tag. IV = `salt` (6 bytes, unique per signer and per start) and a
/// 48-bit counter, so no nonce repeats under the group key. Null when the secret is malformed.
std::unique_ptr<Signer> make_gmac_signer(wire::Name key_name, wire::ByteView secret,
                                         std::array<std::uint8_t, 6> salt);

/// The names for which a key is trusted.
struct KeyRights {
    wire::Name scope;  ///< names below it alone; empty: all names
    /// Restricts the names below `scope` to those below any of these; nothing: no restriction.
    std::optional<std::vector<wire::Name>> names{};
    TimePoint expiry = kNever;  ///< from then on for nothing any more
};

/// The signed bytes and the signer of a Data packet or a command.
struct SignedBytes {
    wire::NameView name;  ///< for the scopes of keys
    wire::SignatureType type = wire::SignatureType::kDigestSha256;
    wire::NameView key_name;
    wire::ByteView signed_portion;
    wire::ByteView signature;
    bool mac_waived = false;  ///< the link vouches for the packet in place of its MAC
};

/// Verification keys by name. DigestSha256 needs none. Confined to one thread: `verify` reuses
/// contexts.
class Keyring {
  public:
    Keyring();
    ~Keyring();
    Keyring(Keyring&&) noexcept;
    Keyring& operator=(Keyring&&) noexcept;

    /// Keeps a key for HMAC-SHA256 (any secret but an empty one), Ed25519 (32-byte public key, or
    /// 64 bytes: the private one's seed before it, and verifying takes half the time), AES-GMAC (16
    /// or 32 bytes), ECDSA P-256 or RSA (`EncodedPublicKey`; too slow for every packet), in place
    /// of an earlier one of that name and scope. False when the key is malformed or of another
    /// type. A key may be kept for several scopes, and keys of different scopes may share a name.
    [[nodiscard]] bool add(wire::SignatureType type, const wire::Name& key_name, wire::ByteView key,
                           KeyRights rights);
    /// Adds a key for all names below `scope`, without an expiry.
    [[nodiscard]] bool add(wire::SignatureType type, const wire::Name& key_name, wire::ByteView key,
                           const wire::Name& scope = wire::Name());
    /// Forgets all keys of that name.
    void remove(const wire::Name& key_name);
    /// Forgets the keys that were kept for `scope`.
    void remove_scope(const wire::Name& scope);
    /// Removes the keys of `prefix` and of all scopes below it.
    void remove_scopes_below(const wire::Name& prefix);
    /// DigestSha256 proves no origin: accepted only when `accept_digest(true)` was called.
    void accept_digest(bool accept);
    /// SignatureNull proves nothing at all: accepted only when `accept_unsigned(true)` was called.
    void accept_unsigned(bool accept);
    /// Without a time, no key is expired. `mac_waived`: the packet has no MAC, and its link vouches
    /// for it; its key must be known and vouch for the name all the same.
    Verdict verify(const wire::DataView& data, TimePoint now = TimePoint::min(),
                   bool mac_waived = false) const;
    Verdict verify(const SignedBytes& bytes, TimePoint now = TimePoint::min()) const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace innet::security
