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

constexpr std::uint64_t kNowMs = 20;

ReplayGuard::Ruling ruling(ReplayGuard& guard, const Signature& signature, FaceId face = kNoFace,
                           std::uint64_t now_ms = kNowMs) {
    const wire::Name key = wire::Name::from_uri(signature.key).value();
    const test::Bytes nonce = test::text(signature.nonce);
    wire::InterestSignatureInfo info;
    info.key_name = key.view();
    info.time_ms = signature.time_ms;
    info.nonce = nonce;
    info.sequence = signature.sequence;
    return guard.admit(face, info, now_ms);
}

bool admits(ReplayGuard& guard, const Signature& signature, FaceId face = kNoFace) {
    return ruling(guard, signature, face) == ReplayGuard::Ruling::kFresh;
}

}  // namespace

TEST_CASE("a command is admitted once, and never after a newer one of its signer") {
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

TEST_CASE("signers are independent, and those of a face are dropped with it") {
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

TEST_CASE("the signer that was silent longest is dropped when there are too many") {
    ReplayGuard guard(0, 2);
    CHECK(admits(guard, {.key = "/a", .time_ms = 10}));
    CHECK(admits(guard, {.key = "/b", .time_ms = 10}));
    CHECK_FALSE(admits(guard, {.key = "/a", .time_ms = 10}));
    CHECK(admits(guard, {.key = "/c", .time_ms = 10}));  // /b goes
    CHECK_FALSE(admits(guard, {.key = "/a", .time_ms = 10}));
    CHECK(admits(guard, {.key = "/b", .time_ms = 10}));
}

TEST_CASE("a command without a timestamp is indistinguishable from its replay") {
    ReplayGuard guard;
    CHECK(admits(guard, {}));
    CHECK(admits(guard, {}));
}

TEST_CASE("a time is compared with the wall clock in both directions") {
    constexpr std::uint64_t kGrace = ReplayGuard::kGracePeriodMs;
    constexpr std::uint64_t kNow = 1'000'000;
    ReplayGuard guard;
    CHECK(ruling(guard, {.key = "/a", .time_ms = kNow - kGrace}, 1, kNow) ==
          ReplayGuard::Ruling::kFresh);
    CHECK(ruling(guard, {.key = "/b", .time_ms = kNow - kGrace - 1}, 1, kNow) ==
          ReplayGuard::Ruling::kStale);
    CHECK(ruling(guard, {.key = "/c", .time_ms = kNow + kGrace}, 1, kNow) ==
          ReplayGuard::Ruling::kFresh);
    CHECK(ruling(guard, {.key = "/d", .time_ms = kNow + kGrace + 1}, 1, kNow) ==
          ReplayGuard::Ruling::kStale);
    // Nobody can use up a signer's times by one that is far ahead.
    CHECK(ruling(guard, {.key = "/d", .time_ms = kNow}, 1, kNow) == ReplayGuard::Ruling::kFresh);
}

TEST_CASE("a node that has just started refuses commands signed before its start") {
    ReplayGuard guard(15);
    CHECK(ruling(guard, {.time_ms = 14}) == ReplayGuard::Ruling::kStale);
    CHECK(admits(guard, {.time_ms = 15}));
    CHECK(admits(guard, {.time_ms = 14}, 3));  // by its face, which is as new as the node
}

TEST_CASE("commands with nonces alone are distinguished from each other") {
    ReplayGuard guard;
    CHECK(admits(guard, {.nonce = "x"}, 1));
    CHECK(admits(guard, {.time_ms = 10, .nonce = "y"}, 1));
    CHECK(admits(guard, {.time_ms = 11, .nonce = "z"}, 1));
    CHECK_FALSE(admits(guard, {.nonce = "x"}, 1));
    CHECK(admits(guard, {.nonce = "y"}, 1));
    CHECK_FALSE(admits(guard, {.nonce = "y"}, 1));
}

TEST_CASE("nonces without a time are bounded, and the oldest is dropped first") {
    ReplayGuard guard;
    for (int i = 0; i < 1025; ++i) CHECK(admits(guard, {.nonce = std::to_string(i)}, 1));
    CHECK_FALSE(admits(guard, {.nonce = "1024"}, 1));
    CHECK_FALSE(admits(guard, {.nonce = "1"}, 1));
    CHECK(admits(guard, {.nonce = "0"}, 1));
}
