#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "tests/native/support/elements.hpp"
#include "tests/native/support/signed_data.hpp"
#include "transport/security/keyring.hpp"

using namespace innet::security;
using innet::test::Bytes;
using innet::test::from_hex;
using innet::test::join;
using innet::test::text;
namespace wire = innet::wire;
using wire::SignatureType;

namespace {

const Bytes kMessage =
    text("The signed portion, of some length that is not a multiple of sixteen.");
constexpr std::array<std::uint8_t, 6> kSalt = {0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5};

/// 0, 1, 2, … as the key or seed.
Bytes counting(std::size_t size) {
    Bytes bytes(size);
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
    return bytes;
}

wire::Name key_name() { return *wire::Name::from_uri("/job/KEY/1"); }

Bytes signature_of(Signer& signer, const Bytes& message) {
    Bytes signature(signer.signature_size());
    REQUIRE(signer.sign(message, signature));
    return signature;
}

Bytes signed_data(Signer& signer, const Bytes& content) {
    return innet::test::signed_data(signer, *wire::Name::from_uri("/job/g0/3/seg=9"), content);
}

Verdict verdict_on(const Keyring& keyring, const Bytes& packet) {
    const auto data = wire::DataView::parse(packet);
    REQUIRE(data);
    return keyring.verify(*data);
}

struct Scheme {
    std::unique_ptr<Signer> signer;
    Bytes verification_key;
};

const Bytes kEd25519PublicKey =
    from_hex("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8");

/// The seed that signs, and the public key behind it.
const Bytes kEd25519Pair = join({counting(32), kEd25519PublicKey});

std::vector<Scheme> keyed_schemes() {
    std::vector<Scheme> schemes;
    schemes.push_back({make_hmac_signer(key_name(), text("secret")), text("secret")});
    schemes.push_back({make_ed25519_signer(key_name(), counting(32)), kEd25519PublicKey});
    schemes.push_back({make_gmac_signer(key_name(), counting(16), kSalt), counting(16)});
    schemes.push_back({make_gmac_signer(key_name(), counting(32), kSalt), counting(32)});
    return schemes;
}

}  // namespace

TEST_CASE("signatures are those of Python's cryptography") {
    CHECK(signature_of(*make_digest_signer(), kMessage) ==
          from_hex("5c021ffb7e5ab13e298ba2aba02f0cd4d153119ffb3143436155b6db00e19bb8"));
    CHECK(signature_of(*make_hmac_signer(key_name(), Bytes(100, 'k')), kMessage) ==
          from_hex("305e8d848ca5baac98189b19879e2b2dd21b775dec2be120dfc2dbc41d7657e3"));
    CHECK(signature_of(*make_ed25519_signer(key_name(), counting(32)), kMessage) ==
          from_hex("e2f99caf4a70c366767f4e607444a45e8341babc84bb499768c3691ed13ddf99"
                   "5e20ae9f00a1fbcc55a03c42b405844e5dae93e6570d94a8413ddbe88ea44105"));
}

TEST_CASE("GMAC is AES-GCM's tag over associated data, behind an IV that counts") {
    const auto with_128 = make_gmac_signer(key_name(), counting(16), kSalt);
    CHECK(signature_of(*with_128, kMessage) ==
          from_hex("a0a1a2a3a4a5000000000000ab46b843feec4f6cf36a325f8b8de5b3"));
    CHECK(signature_of(*with_128, kMessage) ==
          from_hex("a0a1a2a3a4a500000000000160c4bb19ca4b2969dcf581411c1c6295"));
    const auto with_256 = make_gmac_signer(key_name(), counting(32), kSalt);
    CHECK(signature_of(*with_256, kMessage) ==
          from_hex("a0a1a2a3a4a5000000000000e57d81350812dceff525ceea9f5cbd22"));
    CHECK(signature_of(*with_256, kMessage) ==
          from_hex("a0a1a2a3a4a5000000000001de5374563de6d1fac7ebed49a243ed5b"));
}

TEST_CASE("GMAC counters carry into the next byte") {
    const auto signer = make_gmac_signer(key_name(), counting(16), kSalt);
    Bytes last;
    for (int i = 0; i <= 256; ++i) last = signature_of(*signer, kMessage);
    CHECK(Bytes(last.begin(), last.begin() + 12) == from_hex("a0a1a2a3a4a5000000000100"));
}

TEST_CASE("signing again gives the same answer as signing first: nothing is left in a context") {
    for (const auto& make : {+[] { return make_digest_signer(); },
                             +[] { return make_hmac_signer(key_name(), text("secret")); },
                             +[] { return make_ed25519_signer(key_name(), counting(32)); }}) {
        const auto signer = make();
        const Bytes first = signature_of(*signer, kMessage);
        signature_of(*signer, text("something else"));
        signature_of(*signer, {});
        CHECK(signature_of(*signer, kMessage) == first);
    }
}

TEST_CASE("a key pair verifies what its public key verifies") {
    Keyring keyring;
    REQUIRE(keyring.add(SignatureType::kEd25519, key_name(), kEd25519Pair));
    const auto signer = make_ed25519_signer(key_name(), counting(32));
    Bytes packet = signed_data(*signer, text("gradient"));
    CHECK(verdict_on(keyring, packet) == Verdict::kValid);
    packet.back() ^= 1;
    CHECK(verdict_on(keyring, packet) == Verdict::kInvalid);
    // By the same key with a nonce that RFC 8032 does not prescribe: libraries that add randomness
    // make such signatures.
    const Bytes otherwise = from_hex(
        "17ffad8068dc0de9935d36636f3ad1b5de6de3413b12388e453b05f2a4c1d3db"
        "f4e316d828f7a4521e106069de19dc8ddf99cf3ebda243d4de92383b2aed010e");
    const wire::Name key = key_name();
    const auto verdict_of = [&](const Bytes& message) {
        return keyring.verify({.name = {},
                               .type = SignatureType::kEd25519,
                               .key_name = key.view(),
                               .signed_portion = message,
                               .signature = otherwise});
    };
    CHECK(verdict_of(text("signed otherwise")) == Verdict::kValid);
    CHECK(verdict_of(text("signed by nobody")) == Verdict::kInvalid);
    // Halves of two keys are no key.
    const Bytes mixed = join({Bytes(32, 5), kEd25519PublicKey});
    CHECK_FALSE(keyring.add(SignatureType::kEd25519, key_name(), mixed));
}

TEST_CASE("Data of python-ndn verifies") {
    Keyring keyring;
    keyring.accept_digest(true);
    REQUIRE(keyring.add(SignatureType::kHmacSha256, key_name(), text("secret")));
    REQUIRE(keyring.add(SignatureType::kEd25519, *wire::Name::from_uri("/job/KEY/2"),
                        kEd25519PublicKey));
    for (const char* hex :
         {"0648071408056c6f63616c08036e646e0806707265666978140318010015040102030416031b0100172035ec"
          "b6e"
          "40d8c477d13127cfb44c59c325b75d0484f941fa1f075947498d06d04",
          "065b070f08036a6f6208026730080133320109140618010019010a15086772616469656e7416141b01041c0f"
          "070"
          "d08036a6f6208034b45590801311720eca03228f1165cc82a14c3e05114a840683975eee501c70af98a7ef05"
          "314"
          "828c",
          "067b070f08036a6f6208026730080133320109140618010019010a15086772616469656e7416141b01051c0f"
          "070"
          "d08036a6f6208034b45590801321740545e3100d11a1c0216f3e525577a60e80a95e3808323923741d804244"
          "d23"
          "47a1d4e526702b912ccb43011f2c562ecd7223e57196649e838fb22ee3c26519230f"}) {
        CAPTURE(hex);
        CHECK(verdict_on(keyring, from_hex(hex)) == Verdict::kValid);
    }
}

TEST_CASE("a signer's output verifies with its key for every size") {
    for (auto& [signer, key] : keyed_schemes()) {
        CAPTURE(static_cast<int>(signer->type()));
        Keyring keyring;
        REQUIRE(keyring.add(signer->type(), key_name(), key));
        for (const std::size_t size : {0, 1, 15, 16, 17, 8192, 65536}) {
            CAPTURE(size);
            const Bytes packet = signed_data(*signer, Bytes(size, 0x5a));
            CHECK(verdict_on(keyring, packet) == Verdict::kValid);
        }
    }
}

TEST_CASE("a flipped bit anywhere in the packet is never valid") {
    auto schemes = keyed_schemes();
    schemes.push_back({make_digest_signer(), {}});
    for (auto& [signer, key] : schemes) {
        CAPTURE(static_cast<int>(signer->type()));
        Keyring keyring;
        keyring.accept_digest(signer->type() == SignatureType::kDigestSha256);
        if (!key.empty()) REQUIRE(keyring.add(signer->type(), key_name(), key));
        Bytes packet = signed_data(*signer, text("gradient"));
        REQUIRE(verdict_on(keyring, packet) == Verdict::kValid);
        for (std::size_t bit = 0; bit < packet.size() * 8; ++bit) {
            CAPTURE(bit);
            packet[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
            const auto data = wire::DataView::parse(packet);
            if (data) CHECK(keyring.verify(*data) != Verdict::kValid);
            packet[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
        }
    }
}

TEST_CASE("another key, no key, and a key of another type") {
    for (auto& [signer, key] : keyed_schemes()) {
        CAPTURE(static_cast<int>(signer->type()));
        const Bytes packet = signed_data(*signer, text("gradient"));
        Keyring keyring;
        CHECK(verdict_on(keyring, packet) == Verdict::kUnknownKey);
        REQUIRE(keyring.add(signer->type(), *wire::Name::from_uri("/job/KEY/2"), key));
        CHECK(verdict_on(keyring, packet) == Verdict::kUnknownKey);
        Bytes other = key;
        other[0] ^= 1;
        REQUIRE(keyring.add(signer->type(), key_name(), other));
        CHECK(verdict_on(keyring, packet) == Verdict::kInvalid);
        REQUIRE(keyring.add(signer->type(), key_name(), key));
        CHECK(verdict_on(keyring, packet) == Verdict::kValid);
        const bool is_hmac = signer->type() == SignatureType::kHmacSha256;
        REQUIRE(keyring.add(is_hmac ? SignatureType::kGmac : SignatureType::kHmacSha256, key_name(),
                            is_hmac ? counting(16) : key));
        CHECK(verdict_on(keyring, packet) == Verdict::kInvalid);
        keyring.remove(key_name());
        CHECK(verdict_on(keyring, packet) == Verdict::kUnknownKey);
    }
}

TEST_CASE("a public key never serves as an HMAC secret") {
    // The old trick: sign with HMAC under the verifier's Ed25519 public key, which everybody knows.
    const auto forger = make_hmac_signer(key_name(), kEd25519PublicKey);
    Keyring keyring;
    REQUIRE(keyring.add(SignatureType::kEd25519, key_name(), kEd25519PublicKey));
    CHECK(verdict_on(keyring, signed_data(*forger, text("gradient"))) == Verdict::kInvalid);
}

TEST_CASE("a right signature under a wrong type number is invalid") {
    class Mislabelling final : public Signer {
      public:
        explicit Mislabelling(Signer& inner) : inner_(inner) {}
        SignatureType type() const override { return SignatureType::kEcdsaP256; }
        wire::NameView key_name() const override { return inner_.key_name(); }
        std::size_t signature_size() const override { return inner_.signature_size(); }
        bool sign(wire::ByteView signed_portion, std::span<std::uint8_t> signature) override {
            return inner_.sign(signed_portion, signature);
        }

      private:
        Signer& inner_;
    };
    for (auto& [signer, key] : keyed_schemes()) {
        CAPTURE(static_cast<int>(signer->type()));
        Mislabelling mislabelling(*signer);
        Keyring keyring;
        REQUIRE(keyring.add(signer->type(), key_name(), key));
        CHECK(verdict_on(keyring, signed_data(mislabelling, text("gradient"))) ==
              Verdict::kInvalid);
    }
}

TEST_CASE("a bare digest counts only where it is accepted") {
    const Bytes packet = signed_data(*make_digest_signer(), text("gradient"));
    Keyring keyring;
    CHECK(verdict_on(keyring, packet) == Verdict::kUnknownKey);
    keyring.accept_digest(true);
    CHECK(verdict_on(keyring, packet) == Verdict::kValid);
    keyring.accept_digest(false);
    CHECK(verdict_on(keyring, packet) == Verdict::kUnknownKey);
}

TEST_CASE("an empty signature counts only where nothing is verified") {
    const Bytes packet = signed_data(*make_null_signer(), text("gradient"));
    Keyring keyring;
    keyring.accept_digest(true);
    CHECK(verdict_on(keyring, packet) == Verdict::kUnknownKey);
    keyring.accept_unsigned(true);
    CHECK(verdict_on(keyring, packet) == Verdict::kValid);
    keyring.accept_unsigned(false);
    CHECK(verdict_on(keyring, packet) == Verdict::kUnknownKey);
}

TEST_CASE("an object's root needs a signature: a digest or no signature is untrusted") {
    Keyring keyring;
    keyring.accept_digest(true);
    keyring.accept_unsigned(true);
    const auto verdict_of = [&](const std::unique_ptr<Signer>& signer, const char* uri) {
        return verdict_on(keyring, innet::test::signed_data(*signer, *wire::Name::from_uri(uri),
                                                            text("manifest")));
    };
    for (const auto& signer : {make_digest_signer(), make_null_signer()}) {
        CHECK(verdict_of(signer, "/j/obj/32=manifest/seg=0") == Verdict::kUnknownKey);
        CHECK(verdict_of(signer, "/j/obj/32=manifest/seg=1") == Verdict::kValid);
        CHECK(verdict_of(signer, "/j/obj/seg=0") == Verdict::kValid);
    }
}

TEST_CASE("malformed keys are refused") {
    CHECK(make_hmac_signer(key_name(), {}) == nullptr);
    CHECK(make_ed25519_signer(key_name(), counting(31)) == nullptr);
    CHECK(make_gmac_signer(key_name(), counting(24), kSalt) == nullptr);
    CHECK(make_gmac_signer(key_name(), {}, kSalt) == nullptr);
    Keyring keyring;
    CHECK_FALSE(keyring.add(SignatureType::kHmacSha256, key_name(), {}));
    for (const std::size_t size : {0U, 31U, 33U, 63U, 65U}) {
        CHECK_FALSE(keyring.add(SignatureType::kEd25519, key_name(), counting(size)));
    }
    CHECK_FALSE(keyring.add(SignatureType::kGmac, key_name(), counting(15)));
    CHECK_FALSE(keyring.add(SignatureType::kDigestSha256, key_name(), counting(32)));
    CHECK_FALSE(keyring.add(SignatureType::kEcdsaP256, key_name(), counting(32)));
}

TEST_CASE("a signature buffer of the wrong size is refused") {
    auto schemes = keyed_schemes();
    schemes.push_back({make_digest_signer(), {}});
    for (auto& [signer, key] : schemes) {
        Bytes shorter(signer->signature_size() - 1);
        CHECK_FALSE(signer->sign(kMessage, shorter));
    }
}

TEST_CASE("a scoped key signs names below its scope only") {
    for (const Scheme& scheme : keyed_schemes()) {
        const Bytes packet = signed_data(*scheme.signer, text("value"));
        Keyring keyring;
        const wire::Name own = *wire::Name::from_uri("/job");
        const wire::Name other = *wire::Name::from_uri("/other");
        const SignatureType type = scheme.signer->type();
        REQUIRE(keyring.add(type, key_name(), scheme.verification_key, other));
        CHECK(verdict_on(keyring, packet) == Verdict::kOutOfScope);
        REQUIRE(keyring.add(type, key_name(), scheme.verification_key, own));
        CHECK(verdict_on(keyring, packet) == Verdict::kValid);
        keyring.remove_scope(own);
        CHECK(verdict_on(keyring, packet) == Verdict::kOutOfScope);
        keyring.remove_scope(other);
        CHECK(verdict_on(keyring, packet) == Verdict::kUnknownKey);
    }
}

TEST_CASE("all keys for scopes below a prefix go at once, and no others") {
    const auto signer = make_hmac_signer(key_name(), text("secret"));
    const Bytes packet = signed_data(*signer, text("value"));
    const auto name = [](const char* uri) { return *wire::Name::from_uri(uri); };
    const auto add = [&](Keyring& keyring, const wire::Name& scope) {
        REQUIRE(keyring.add(SignatureType::kHmacSha256, key_name(), text("secret"), scope));
    };
    Keyring keyring;
    add(keyring, name("/job/g0"));
    add(keyring, name("/job"));
    add(keyring, name("/jobs/g0"));
    keyring.remove_scopes_below(name("/job"));
    CHECK(verdict_on(keyring, packet) == Verdict::kOutOfScope);
    keyring.remove_scope(name("/jobs/g0"));
    CHECK(verdict_on(keyring, packet) == Verdict::kUnknownKey);
    add(keyring, wire::Name());
    keyring.remove_scopes_below(name("/job"));
    CHECK(verdict_on(keyring, packet) == Verdict::kValid);
}

TEST_CASE("of its scope, a key can vouch for some names alone") {
    for (const Scheme& scheme : keyed_schemes()) {
        const Bytes packet = signed_data(*scheme.signer, text("value"));
        const auto verdict_with = [&](std::vector<wire::Name> names) {
            Keyring keyring;
            REQUIRE(keyring.add(scheme.signer->type(), key_name(), scheme.verification_key,
                                {*wire::Name::from_uri("/job"), std::move(names)}));
            return verdict_on(keyring, packet);
        };
        const wire::Name other = *wire::Name::from_uri("/job/g0/33");
        const wire::Name deeper = *wire::Name::from_uri("/job/g0/3/seg=9/and/further");
        CHECK(verdict_with({}) == Verdict::kOutOfScope);
        CHECK(verdict_with({other, deeper}) == Verdict::kOutOfScope);
        CHECK(verdict_with({other, *wire::Name::from_uri("/job/g0/3")}) == Verdict::kValid);
    }
}

TEST_CASE("an expired key's valid signature is not trusted") {
    for (const Scheme& scheme : keyed_schemes()) {
        const Bytes packet = signed_data(*scheme.signer, text("value"));
        const auto data = wire::DataView::parse(packet);
        const innet::TimePoint end{std::chrono::seconds(9)};
        Keyring keyring;
        REQUIRE(keyring.add(scheme.signer->type(), key_name(), scheme.verification_key,
                            {.scope = wire::Name(), .expiry = end}));
        CHECK(keyring.verify(*data, end - innet::Duration(1)) == Verdict::kValid);
        CHECK(keyring.verify(*data, end) == Verdict::kExpired);
    }
}

TEST_CASE("keys of different scopes may share a name") {
    Keyring keyring;
    REQUIRE(keyring.add(SignatureType::kHmacSha256, key_name(), text("secret"),
                        *wire::Name::from_uri("/job")));
    REQUIRE(keyring.add(SignatureType::kHmacSha256, key_name(), text("another"),
                        *wire::Name::from_uri("/other")));
    const auto signer = make_hmac_signer(key_name(), text("secret"));
    const auto forger = make_hmac_signer(key_name(), text("another"));
    CHECK(verdict_on(keyring, signed_data(*signer, text("value"))) == Verdict::kValid);
    CHECK(verdict_on(keyring, signed_data(*forger, text("value"))) == Verdict::kInvalid);
}
