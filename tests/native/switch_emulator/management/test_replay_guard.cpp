#include <doctest/doctest.h>

#include "switch_emulator/management/replay_guard.hpp"
#include "tests/native/support/elements.hpp"

using namespace innet;
using management::ReplayGuard;

namespace {

struct Signature {
    std::string key = "/k";
    std::optional<std::uint64_t> time_ms = {};
    std::string nonce = {};
    std::optional<std::uint64_t> sequence = {};
};

bool admits(ReplayGuard& guard, const Signature& signature, FaceId face = kNoFace) {
    const wire::Name key = wire::Name::from_uri(signature.key).value();
    const test::Bytes nonce = test::text(signature.nonce);
    wire::InterestSignatureInfo info;
    info.key_name = key.view();
    info.time_ms = signature.time_ms;
    info.nonce = nonce;
    info.sequence = signature.sequence;
    return guard.admit(face, info);
}

}  // namespace

TEST_CASE("a command is admitted once, and none older than its signer's last") {
    ReplayGuard guard;
    CHECK(admits(guard, {.time_ms = 10, .nonce = "a"}));
    CHECK_FALSE(admits(guard, {.time_ms = 10, .nonce = "a"}));
    CHECK_FALSE(admits(guard, {.time_ms = 9, .nonce = "b"}));
    CHECK(admits(guard, {.time_ms = 10, .nonce = "b"}));  // two in one millisecond
    CHECK_FALSE(admits(guard, {.time_ms = 10, .nonce = "a"}));
    CHECK_FALSE(admits(guard, {.time_ms = 10}));
    CHECK(admits(guard, {.time_ms = 11}));
    CHECK_FALSE(admits(guard, {.time_ms = 11}));
}

TEST_CASE("sequence numbers rise; nonces alone must be new") {
    ReplayGuard guard;
    CHECK(admits(guard, {.key = "/s", .sequence = 3}));
    CHECK(admits(guard, {.key = "/s", .sequence = 4}));
    CHECK_FALSE(admits(guard, {.key = "/s", .sequence = 4}));
    CHECK_FALSE(admits(guard, {.key = "/s", .time_ms = 99, .sequence = 2}));
    CHECK(admits(guard, {.key = "/n", .nonce = "x"}));
    CHECK(admits(guard, {.key = "/n", .nonce = "y"}));
    CHECK_FALSE(admits(guard, {.key = "/n", .nonce = "x"}));
}

TEST_CASE("signers do not touch each other, and a face's are forgotten with it") {
    ReplayGuard guard;
    CHECK(admits(guard, {.time_ms = 10}, 1));
    CHECK(admits(guard, {.time_ms = 5}, 2));
    CHECK(admits(guard, {.key = "/other", .time_ms = 5}, 1));
    CHECK(admits(guard, {.time_ms = 7}));
    guard.on_face_closed(1);
    CHECK(admits(guard, {.time_ms = 10}, 1));
    CHECK(admits(guard, {.key = "/other", .time_ms = 5}, 1));
    CHECK_FALSE(admits(guard, {.time_ms = 5}, 2));
    CHECK_FALSE(admits(guard, {.time_ms = 7}));
}

TEST_CASE("of more signers than there is room for, the one longest silent is forgotten") {
    ReplayGuard guard(2);
    CHECK(admits(guard, {.key = "/a", .time_ms = 10}));
    CHECK(admits(guard, {.key = "/b", .time_ms = 10}));
    CHECK_FALSE(admits(guard, {.key = "/a", .time_ms = 10}));
    CHECK(admits(guard, {.key = "/c", .time_ms = 10}));  // /b goes
    CHECK_FALSE(admits(guard, {.key = "/a", .time_ms = 10}));
    CHECK(admits(guard, {.key = "/b", .time_ms = 10}));
}

TEST_CASE("what bears no date cannot be told from its repetition") {
    ReplayGuard guard;
    CHECK(admits(guard, {}));
    CHECK(admits(guard, {}));
}
