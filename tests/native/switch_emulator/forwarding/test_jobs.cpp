// Jobs on one switch: whose names which face carries, whose keys vouch for what, and what is left
// of a job after its end.

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

#include "switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

constexpr FaceId kHostOfA = 0;
constexpr FaceId kOtherHostOfA = 1;
constexpr FaceId kHostOfB = 2;
constexpr FaceId kIdleHost = 3;
constexpr FaceId kUplink = 4;

bool is_nack(const std::vector<Sent>& packets, wire::NackReason reason) {
    return packets.size() == 1 && packets[0].kind == Sent::Kind::kNack &&
           packets[0].reason == reason;
}

/// Jobs /a on faces 0 and 1, /b on face 2, no job on face 3; face 4 leads to another switch.
struct SharedSwitch : SwitchUnderTest {
    explicit SharedSwitch(forwarding::NodeOptions options = default_options())
        : SwitchUnderTest(5, std::move(options)) {
        node.install_job(name("/a"), 1, nullptr);
        node.install_job(name("/b"), 1, nullptr);
        node.bind_face(kHostOfA, name("/a"));
        node.bind_face(kOtherHostOfA, name("/a"));
        node.bind_face(kHostOfB, name("/b"));
        node.bind_face(kIdleHost, wire::Name());
        node.add_route(name("/n/ha"), kOtherHostOfA, 1);
        node.add_route(name("/n/hb"), kHostOfB, 1);
        node.add_route(name("/n/idle"), kIdleHost, 1);
        node.add_route(name("/n/s1"), kUplink, 1);
    }

    forwarding::JobStatus status_of(std::string_view job) const {
        for (const forwarding::JobStatus& status : node.jobs()) {
            if (status.prefix == name(job)) return status;
        }
        FAIL("no such job");
        return {};
    }
};

}  // namespace

TEST_CASE("a host's Interests for another job's names are refused, and counted") {
    SharedSwitch f;
    f.receive_interest(kHostOfA, "/b/g0/0/seg=1", 1, {.hint = "/n/hb"});
    CHECK(is_nack(f.sent(kHostOfA), wire::NackReason::kForbidden));
    CHECK(f.sent(kHostOfB).empty());
    f.receive_interest(kHostOfA, "/nobody/0", 2, {.hint = "/n/hb"});
    CHECK(is_nack(f.sent(kHostOfA), wire::NackReason::kForbidden));
    f.receive_interest(kIdleHost, "/b/g0/0/seg=1", 3, {.hint = "/n/hb"});
    CHECK(is_nack(f.sent(kIdleHost), wire::NackReason::kForbidden));
    CHECK(f.sent(kHostOfB).empty());
    CHECK(f.node.counters().forbidden_interests == 3);
    CHECK(f.node.face_counters(kHostOfA).forbidden_in == 2);
    CHECK(f.node.counters().pit_entries == 0);
}

TEST_CASE("Data cached for a job is not served to others") {
    SharedSwitch f;
    f.receive_interest(kUplink, "/b/g0/0/seg=1", 1, {.hint = "/n/hb"});
    f.receive(kHostOfB, f.data("/b/g0/0/seg=1"));
    CHECK(f.node.counters().cache_entries == 1);
    f.receive_interest(kHostOfA, "/b/g0/0/seg=1", 2);
    CHECK(is_nack(f.sent(kHostOfA), wire::NackReason::kForbidden));
    f.receive_interest(kHostOfA, "/b", 3, {.can_be_prefix = true});
    CHECK(is_nack(f.sent(kHostOfA), wire::NackReason::kForbidden));
    f.receive_interest(kHostOfB, "/b/g0/0/seg=1", 4);
    CHECK(f.sent(kHostOfB).back().kind == Sent::Kind::kData);
}

TEST_CASE("a job's names reach its own hosts only, regardless of forwarding hints") {
    SharedSwitch f;
    f.receive_interest(kHostOfA, "/a/g0/1/seg=1", 1, {.hint = "/n/hb"});
    CHECK(f.sent(kHostOfB).empty());
    CHECK(is_nack(f.sent(kHostOfA), wire::NackReason::kNoRoute));
    f.receive_interest(kUplink, "/a/g0/1/seg=1", 2, {.hint = "/n/idle"});
    CHECK(f.sent(kIdleHost).empty());
    CHECK(is_nack(f.sent(kUplink), wire::NackReason::kNoRoute));
    f.receive_interest(kHostOfA, "/a/g0/1/seg=2", 3, {.hint = "/n/ha"});
    CHECK(f.sent(kOtherHostOfA).size() == 1);
    f.receive_interest(kHostOfA, "/a/g0/1/seg=3", 4, {.hint = "/n/s1"});
    CHECK(f.sent(kUplink).size() == 1);
}

TEST_CASE("names without a job pass between hosts without a job") {
    SharedSwitch f;
    f.node.add_route(name("/kv"), kUplink, 1);
    f.receive_interest(kIdleHost, "/kv/block", 1);
    CHECK(f.sent(kUplink).size() == 1);
    f.receive(kUplink, f.data("/kv/block"));
    CHECK(f.sent(kIdleHost).size() == 1);
}

TEST_CASE("names of no job use the links of jobs' hosts that are admitted to them") {
    SharedSwitch f;
    f.node.add_route(name("/free"), kHostOfB, 1);
    f.receive_interest(kHostOfA, "/free/1", 1);
    CHECK(is_nack(f.sent(kHostOfA), wire::NackReason::kForbidden));
    f.node.admit_face(kHostOfA, wire::Name());
    f.receive_interest(kHostOfA, "/free/1", 2);
    CHECK(is_nack(f.sent(kHostOfA), wire::NackReason::kNoRoute));
    f.node.admit_face(kHostOfB, wire::Name());
    f.receive_interest(kHostOfA, "/free/1", 3);
    CHECK(f.sent(kHostOfB).size() == 1);
    f.receive(kHostOfB, f.data("/free/1", "for all"));
    CHECK(f.sent(kHostOfA).back().content == "for all");
    f.receive_interest(kHostOfA, "/b/g0/0/seg=1", 4, {.hint = "/n/hb"});
    CHECK(f.sent(kHostOfA).back().reason == wire::NackReason::kForbidden);
    f.node.dismiss_face(kHostOfB, wire::Name());
    f.receive_interest(kHostOfA, "/free/2", 5);
    CHECK(f.sent(kHostOfB).empty());
}

TEST_CASE("other hosts cannot request unannounced names of a job's host") {
    SharedSwitch f;
    f.node.admit_face(kHostOfA, wire::Name());
    f.node.admit_face(kHostOfB, wire::Name());
    f.receive_interest(kHostOfA, "/n/hb/secret", 1);
    CHECK(is_nack(f.sent(kHostOfA), wire::NackReason::kNoRoute));
    f.receive_interest(kHostOfA, "/free/1", 2, {.hint = "/n/hb"});
    CHECK(is_nack(f.sent(kHostOfA), wire::NackReason::kNoRoute));
    f.receive_interest(kUplink, "/free/2", 3, {.hint = "/n/hb"});
    CHECK(f.sent(kHostOfB).empty());
    f.receive_interest(kHostOfA, "/free/3", 4, {.hint = "/n/idle"});
    CHECK(f.sent(kIdleHost).size() == 1);
}

TEST_CASE("a job's Data does not answer Interests for prefixes shorter than the job's") {
    SharedSwitch f;
    f.node.install_job(name("/kv/t1"), 1, nullptr);
    f.node.admit_face(kHostOfB, name("/kv/t1"));
    f.node.add_route(name("/kv"), kUplink, 1);
    f.receive_interest(kIdleHost, "/kv", 1, {.lifetime = 10s, .can_be_prefix = true});
    f.sent(kUplink);
    f.receive_interest(kHostOfB, "/kv/t1/block", 2);
    f.receive(kUplink, f.data("/kv/t1/block", "of the pool"));
    CHECK(f.sent(kHostOfB).back().content == "of the pool");
    f.receive_interest(kIdleHost, "/kv", 3, {.can_be_prefix = true});
    CHECK(f.sent(kIdleHost).empty());
    f.receive(kUplink, f.data("/kv/t2", "of nobody"));
    CHECK(f.sent(kIdleHost).back().content == "of nobody");
}

TEST_CASE("Data, Nacks and Holds from another job's host change nothing") {
    SharedSwitch f;
    f.receive_interest(kUplink, "/b/g0/0/seg=1", 1, {.hint = "/n/hb"});
    const std::uint32_t nonce = f.sent(kHostOfB).front().nonce;
    f.receive(kHostOfA, f.data("/b/g0/0/seg=1", "forged"));
    f.receive(kHostOfA, f.nack("/b/g0/0/seg=1", nonce, wire::NackReason::kNoRoute));
    f.receive(kHostOfA, f.hold("/b/g0/0/seg=1", nonce, "0"));
    CHECK(f.sent_everywhere() == 0);
    CHECK(f.node.counters().forbidden_answers == 3);
    CHECK(f.node.counters().cache_entries == 0);
    f.receive(kHostOfB, f.data("/b/g0/0/seg=1", "true"));
    const auto answer = f.sent(kUplink);
    REQUIRE(answer.size() == 1);
    CHECK(answer[0].content == "true");
}

TEST_CASE("Data of a job verifies with that job's keys alone, also between switches") {
    SharedSwitch f;
    constexpr auto kSecret = "0123456789abcdef0123456789abcdef";
    f.keyring.remove(name("/keys/job"));
    REQUIRE(f.keyring.add(wire::SignatureType::kHmacSha256, name("/keys/job"), bytes(kSecret),
                          name("/a")));
    for (const bool known : {true, false}) {
        CAPTURE(known);
        f.receive_interest(kHostOfB, "/b/g0/7/seg=1", known ? 1 : 2, {.hint = "/n/s1"});
        f.sent_everywhere();
        // Signed with the key of /a, or with one that nobody knows: not passed on, and whoever
        // waits goes on waiting.
        f.receive(kUplink, known ? f.data("/b/g0/7/seg=1") : f.foreign_data("/b/g0/7/seg=1"));
        CHECK(f.sent_everywhere() == 0);
        CHECK(f.node.counters().pit_entries == 1);
    }
    CHECK(f.node.counters().key_out_of_scope == 1);
    CHECK(f.node.counters().unknown_key == 1);
    f.receive_interest(kHostOfA, "/a/g0/7/seg=1", 3, {.hint = "/n/s1"});
    f.receive(kUplink, f.data("/a/g0/7/seg=1"));
    CHECK(f.sent(kHostOfA).size() == 1);
}

TEST_CASE("Data signed by a key without permission or after expiry is ignored") {
    SharedSwitch f;
    constexpr auto kSecret = "0123456789abcdef0123456789abcdef";
    const auto trust = [&](std::string_view rank, TimePoint expiry) {
        REQUIRE(f.keyring.add(wire::SignatureType::kHmacSha256, name("/keys/job"), bytes(kSecret),
                              {wire::Name(), std::vector{name(rank)}, expiry}));
    };
    f.receive_interest(kHostOfA, "/a/g0/7/seg=1", 1, {.hint = "/n/ha"});
    f.sent_everywhere();
    trust("/a/g0/6", kNever);
    f.receive(kOtherHostOfA, f.data("/a/g0/7/seg=1"));
    CHECK(f.node.counters().key_out_of_scope == 1);
    trust("/a/g0/7", f.now);
    f.receive(kOtherHostOfA, f.data("/a/g0/7/seg=1"));
    CHECK(f.node.counters().key_expired == 1);
    CHECK(f.node.face_counters(kOtherHostOfA).invalid_signature_in == 2);
    CHECK(f.sent_everywhere() == 0);
    CHECK(f.node.counters().cache_entries == 0);
    trust("/a/g0/7", f.now + 1s);
    f.receive(kOtherHostOfA, f.data("/a/g0/7/seg=1"));
    CHECK(f.sent(kHostOfA).size() == 1);
}

TEST_CASE("a flood of one job's Interests leaves another job its guarantee") {
    auto options = SwitchUnderTest::default_options();
    options.pit_capacity = 60;
    SharedSwitch f(options);
    CHECK(f.status_of("/b").pit_guaranteed == 10);
    std::uint32_t nonce = 0;
    for (int i = 0; i < 100; ++i) {
        f.receive_interest(kHostOfA, "/a/flood/" + std::to_string(i), ++nonce,
                           {.hint = "/n/s1", .lifetime = 60s});
    }
    CHECK(f.status_of("/a").pit_entries == 40);
    CHECK(f.status_of("/a").pit_refused == 60);
    for (int i = 0; i < 10; ++i) {
        f.receive_interest(kHostOfB, "/b/g0/" + std::to_string(i), ++nonce, {.hint = "/n/s1"});
    }
    CHECK(f.status_of("/b").pit_entries == 10);
    CHECK(f.status_of("/b").pit_refused == 0);
}

TEST_CASE("a job's end removes its state and frees its hosts") {
    SharedSwitch f;
    reduction::Rule rule;
    rule.group = name("/a/g0");
    rule.interval = name("/0-1");
    rule.operands = {{name("/0"), name("/n/ha")}, {name("/1"), name("/n/s1")}};
    f.node.reducer().install(rule);
    f.receive_interest(kHostOfA, "/a/g0/0-1/sum.f32/seq=1/seg=0", 1);
    f.receive_interest(kHostOfA, "/a/obj/1", 2, {.hint = "/n/ha"});
    f.receive_interest(kHostOfA, "/a/obj/2", 3, {.hint = "/n/ha"});
    f.receive(kOtherHostOfA, f.data("/a/obj/1"));
    f.receive_interest(kUplink, "/b/g0/0/seg=1", 4, {.hint = "/n/hb"});
    f.sent_everywhere();
    CHECK(f.status_of("/a").slots.in_use == 1);
    CHECK(f.status_of("/a").cache_bytes > 0);

    f.node.remove_job(name("/a"), f.now);
    CHECK(f.node.jobs().size() == 1);
    CHECK(f.node.reducer().counters().slots_in_use == 0);
    CHECK(f.node.reducer().rules().empty());
    CHECK(f.node.counters().cache_entries == 0);
    CHECK(f.node.counters().pit_entries == 1);  // of /b
    const auto told = f.sent(kHostOfA);
    CHECK(told.size() == 2);
    CHECK(std::ranges::all_of(told, [](const Sent& s) { return s.kind == Sent::Kind::kNack; }));

    f.node.install_job(name("/c"), 1, nullptr);
    f.node.bind_face(kHostOfA, name("/c"));
    f.receive_interest(kHostOfA, "/c/g0/0/seg=1", 5, {.hint = "/n/s1"});
    CHECK(f.sent(kUplink).size() == 1);
    f.receive(kHostOfB, f.data("/b/g0/0/seg=1"));
    CHECK(f.sent(kUplink).size() == 1);
}

TEST_CASE("a face carries the names of jobs that it is admitted to, beside its own") {
    SharedSwitch f;
    f.node.install_job(name("/kv/t1"), 1, nullptr);
    f.node.install_job(name("/kv/t2"), 1, nullptr);
    f.node.admit_face(kHostOfA, name("/kv/t1"));
    f.node.admit_face(kHostOfB, name("/kv/t1"));
    f.receive_interest(kHostOfA, "/kv/t1/block/seg=1", 1, {.hint = "/n/hb"});
    CHECK(f.sent(kHostOfB).size() == 1);
    f.receive(kHostOfB, f.data("/kv/t1/block/seg=1", "kv"));
    CHECK(f.sent(kHostOfA).back().content == "kv");
    f.receive_interest(kHostOfA, "/a/g0/0/seg=1", 2, {.hint = "/n/s1"});
    CHECK(f.sent(kUplink).size() == 1);
    for (const char* foreign : {"/kv/t2/block/seg=1", "/kv/x", "/kv", "/b/g0/0"}) {
        CAPTURE(foreign);
        f.receive_interest(kHostOfA, foreign, 3, {.hint = "/n/s1"});
        CHECK(is_nack(f.sent(kHostOfA), wire::NackReason::kForbidden));
    }
    f.receive_interest(kIdleHost, "/kv/t1/block/seg=1", 4);  // which is in the cache
    CHECK(is_nack(f.sent(kIdleHost), wire::NackReason::kForbidden));
}

TEST_CASE("an admission ends with its job, or when the face moves to another job") {
    SharedSwitch f;
    std::uint32_t nonce = 10;
    const auto is_carried = [&](FaceId face) {
        f.receive_interest(face, "/kv/t1/" + std::to_string(nonce), nonce, {.hint = "/n/s1"});
        ++nonce;
        return f.sent(face).empty() && f.sent(kUplink).size() == 1;
    };
    f.node.install_job(name("/kv/t1"), 1, nullptr);
    f.node.admit_face(kHostOfA, name("/kv/t1"));
    f.node.admit_face(kOtherHostOfA, name("/kv/t1"));
    f.node.bind_face(kHostOfA, name("/a"));
    CHECK(is_carried(kHostOfA));
    f.node.bind_face(kHostOfA, name("/b"));
    CHECK_FALSE(is_carried(kHostOfA));
    CHECK(is_carried(kOtherHostOfA));
    f.node.dismiss_face(kOtherHostOfA, name("/kv/t1"));
    f.node.dismiss_face(kOtherHostOfA, name("/kv/nobody"));
    CHECK_FALSE(is_carried(kOtherHostOfA));
    f.node.admit_face(kOtherHostOfA, name("/kv/t1"));
    CHECK(is_carried(kOtherHostOfA));
    f.node.remove_job(name("/kv/t1"), f.now);
    f.sent_everywhere();
    f.node.install_job(name("/kv/t2"), 1, nullptr);  // gets the place of the one before
    f.receive_interest(kOtherHostOfA, "/kv/t2/block", 99, {.hint = "/n/s1"});
    CHECK(is_nack(f.sent(kOtherHostOfA), wire::NackReason::kForbidden));
}

TEST_CASE("faces are bound only to existing jobs") {
    SharedSwitch f;
    CHECK_THROWS_AS(f.node.bind_face(17, name("/a")), std::invalid_argument);
    CHECK_THROWS_AS(f.node.bind_face(kHostOfA, name("/x")), std::invalid_argument);
    CHECK_THROWS_AS(f.node.admit_face(17, name("/a")), std::invalid_argument);
    CHECK_THROWS_AS(f.node.dismiss_face(17, name("/a")), std::invalid_argument);
    CHECK_THROWS_AS(f.node.admit_face(kHostOfA, name("/x")), std::invalid_argument);
    f.node.remove_job(name("/x"), f.now);  // which nobody knows: nothing happens
    CHECK(f.node.jobs().size() == 2);
}
