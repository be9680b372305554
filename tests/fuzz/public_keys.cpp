// Public keys as certificates have them, and signatures that they are to verify.

#include <algorithm>
#include <array>

#include "tests/fuzz/require.hpp"
#include "transport/security/encoded_public_key.hpp"
#include "transport/security/keyring.hpp"

namespace {

using innet::fuzz::require;
using innet::security::EncodedPublicKey;
using innet::wire::ByteView;
using innet::wire::SignatureType;

constexpr std::array<SignatureType, 6> kTypes = {
    SignatureType::kEcdsaP256,  SignatureType::kRsa,  SignatureType::kEd25519,
    SignatureType::kHmacSha256, SignatureType::kGmac, SignatureType::kDigestSha256};

/// What a keyring keeps, it can look at.
void keep(SignatureType type, ByteView key) {
    static innet::security::Keyring keyring;
    static const auto name = innet::wire::Name::from_uri("/k/KEY/1");
    if (!keyring.add(type, *name, key)) return;
    const std::array<std::uint8_t, 40> message{};
    const auto verdict =
        keyring.verify({name->view(), type, name->view(), message, ByteView(message).first(28)},
                       innet::TimePoint{});
    require(verdict != innet::security::Verdict::kValid, "a signature of zeros is none");
}

}  // namespace

/// The first byte chooses the type; the second is how many bytes at the end are a signature.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size < 2) return 0;
    const SignatureType type = kTypes[bytes[0] % kTypes.size()];
    const ByteView rest(bytes + 2, size - 2);
    const ByteView signature = rest.last(std::min<std::size_t>(bytes[1], rest.size()));
    const ByteView der = rest.first(rest.size() - signature.size());
    if (type != SignatureType::kEcdsaP256 && type != SignatureType::kRsa) {
        keep(type, der);
    } else if (const auto key = EncodedPublicKey::from_der(type, der)) {
        require(key->type() == type, "a key is of the type that was asked for");
        require(!key->verify(ByteView(bytes, 1), signature), "nobody has signed this");
    }
    return 0;
}
