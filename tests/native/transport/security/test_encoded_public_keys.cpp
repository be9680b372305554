// Keys and signatures of other NDN software, as Python's `cryptography` makes them.

#include <doctest/doctest.h>

#include "tests/native/support/elements.hpp"
#include "transport/security/keyring.hpp"

using namespace innet::security;
using innet::test::Bytes;
using innet::test::from_hex;
using innet::test::text;
namespace wire = innet::wire;
using wire::SignatureType;

namespace {

const Bytes kMessage =
    text("The signed portion, of some length that is not a multiple of sixteen.");
const Bytes kEcdsaKey = from_hex(
    "3059301306072a8648ce3d020106082a8648ce3d03010703420004f9ebe464147cc102d92324d099"
    "d927c1a50e42d57a08a116ffec0a29819d8c6570baf7d12888902a6a0c1d67add103123c859ab69b"
    "f8e9431c9384930d4b7eee");
const Bytes kEcdsaSignature = from_hex(
    "304402207da2fcac2878cc16d1f750d03ab8fc2028a777a9a5811ddac3b3a89f79d772b702203930"
    "705cb91066d52b0f0ba8827ac535b287a39914eb267b104914662c3d8338");
const Bytes kRsaKey = from_hex(
    "30820122300d06092a864886f70d01010105000382010f003082010a0282010100a1fa80e0ecac8b"
    "77b45aa0da0a1b85f8d35c9f51b260e03e31b581bb7ecb4c78b8a0a0a1ef7f531028cf9916d5e63e"
    "c3442af4886fbea8f0792baad06407204e5c9c47db104cd396465afa64121bdf991c734b56085413"
    "87d8ebbdbd79dbdbd28fbb27ea8a5b0f0c76a73b78e2fa54b89609168bf6dc62bc1591316b42b9b7"
    "b04848c58c186ce479302303c23bdc6bfc7a180c87825490b799f24bab45a21b2503c94f0311c953"
    "b121d02df5fa3ce0499501a3076bc5a1be3feec2e8945eed3534999c0593f37511c752274f41142a"
    "185e868b72364cc9c694242bc49ccd61430680c31e04687e47508e6c386bb5cc2b8bc56341e67bb0"
    "b0a167d310d98f9b8d0203010001");
const Bytes kRsaSignature = from_hex(
    "8d57eddde5e91f2fd89b1042bcf78f48545ec1683929625deb4340171a3482dfdcbfc9c7741dd393"
    "d2a784b4e5f637b5b8a6754017007387afe76f1ac12e0576fa3b3937fa2f96644eaa80d1074f5cae"
    "1ec42b75ad54090ddb82fc082606e912a9a438903013e125f1b6b9641055a1c4a17400ef6c48cd1b"
    "ba8c8fe624c167308ecbe155050ce614972a6418b2c16f05b9b2943affe083de34fef9f4364e3b34"
    "9d2b7e128172987485a1c59729e31a603774396041f6e6122a0c6c7366474287cf0d871fa6407fcb"
    "45723746a69c1ac8b7cfdd14bfaad550303f90141541a3632cadd8a56d261a1be8334536c294b2e5"
    "3cf202a1809995ffb2af609bf34bbc29");
const Bytes kKeyOnP384 = from_hex(
    "3076301006072a8648ce3d020106052b8104002203620004bfd152465458e5b9f1a903eafef03095"
    "ebfd52c5f9ea97be74de9194355fcfb40ec097315adf6afdefba21f44b625b4817058eff9a1ad175"
    "a4675e9c730cb028ec76aec544f7a56d58164d8cfc0402b489c4e74c918dc3a77f5c219d31b8e245");
const Bytes kShortRsaKey = from_hex(
    "30819f300d06092a864886f70d010101050003818d0030818902818100aae9c854e12a89f6c2d175"
    "46b64d2d6a97debe4da9273ba10facdf5f95b3079a53c3345c82af0c856ef069826ce01ce3592943"
    "3cb43537361bb4330067584540caab42d541ec28bf277731b076ed10cd1d6bb32973a8272f88feaf"
    "15f0131186df3c190746485d405147578af6a9925084b3030bd7cebc5ff24c937916d34f89020301"
    "0001");

struct Scheme {
    SignatureType type;
    Bytes key;
    Bytes signature;
};

const std::vector<Scheme> kSchemes = {{SignatureType::kEcdsaP256, kEcdsaKey, kEcdsaSignature},
                                      {SignatureType::kRsa, kRsaKey, kRsaSignature}};

wire::Name key_name() { return *wire::Name::from_uri("/op/KEY/1"); }

Verdict verdict_on(const Scheme& scheme, const Bytes& message, const Bytes& signature) {
    Keyring keyring;
    REQUIRE(keyring.add(scheme.type, key_name(), scheme.key));
    const wire::Name key = key_name();
    return keyring.verify({.name = key.view(),
                           .type = scheme.type,
                           .key_name = key.view(),
                           .signed_portion = message,
                           .signature = signature});
}

}  // namespace

TEST_CASE("signatures that other NDN software makes are verified") {
    for (const Scheme& scheme : kSchemes) {
        CAPTURE(static_cast<int>(scheme.type));
        CHECK(verdict_on(scheme, kMessage, scheme.signature) == Verdict::kValid);
    }
}

TEST_CASE("a signature that was cut, lengthened or changed anywhere is invalid") {
    for (const Scheme& scheme : kSchemes) {
        CAPTURE(static_cast<int>(scheme.type));
        for (std::size_t i = 0; i < scheme.signature.size(); ++i) {
            Bytes changed = scheme.signature;
            changed[i] ^= 1;
            CHECK(verdict_on(scheme, kMessage, changed) == Verdict::kInvalid);
        }
        Bytes other = scheme.signature;
        other.push_back(0);
        CHECK(verdict_on(scheme, kMessage, other) == Verdict::kInvalid);
        other.resize(scheme.signature.size() - 1);
        CHECK(verdict_on(scheme, kMessage, other) == Verdict::kInvalid);
        CHECK(verdict_on(scheme, kMessage, {}) == Verdict::kInvalid);
        CHECK(verdict_on(scheme, text("Another message."), scheme.signature) == Verdict::kInvalid);
    }
}

TEST_CASE("keys of other kinds, curves and lengths are refused, and so are damaged ones") {
    Keyring keyring;
    CHECK_FALSE(keyring.add(SignatureType::kEcdsaP256, key_name(), kKeyOnP384));
    CHECK_FALSE(keyring.add(SignatureType::kEcdsaP256, key_name(), kRsaKey));
    CHECK_FALSE(keyring.add(SignatureType::kRsa, key_name(), kEcdsaKey));
    CHECK_FALSE(keyring.add(SignatureType::kRsa, key_name(), kShortRsaKey));
    for (const Scheme& scheme : kSchemes) {
        Bytes damaged = scheme.key;
        damaged.push_back(0);
        CHECK_FALSE(keyring.add(scheme.type, key_name(), damaged));
        damaged.resize(scheme.key.size() - 1);
        CHECK_FALSE(keyring.add(scheme.type, key_name(), damaged));
        CHECK_FALSE(keyring.add(scheme.type, key_name(), {}));
    }
}
