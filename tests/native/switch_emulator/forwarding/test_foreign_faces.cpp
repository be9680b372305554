#include <doctest/doctest.h>

#include "switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

constexpr FaceId kLink = 0;
constexpr FaceId kNear = 1;
constexpr FaceId kFar = 2;
constexpr FaceId kProducer = 3;
constexpr FaceOptions kNearOptions{
    .foreign = true, .scope = FaceScope::kLocal, .max_packet_bytes = kMaxForeignPacketBytes};
constexpr FaceOptions kFarOptions{.foreign = true, .max_packet_bytes = kMaxForeignPacketBytes};

/// A link to another node, programs on this machine and on another, and one that produces /p.
struct Crossing : SwitchUnderTest {
    explicit Crossing(forwarding::NodeOptions options = default_options())
        : SwitchUnderTest(1, std::move(options)) {
        CHECK(node.add_face(kNearOptions) == kNear);
        CHECK(node.add_face(kFarOptions) == kFar);
        CHECK(node.add_face(kFarOptions) == kProducer);
        node.add_route(name("/p"), kProducer, 0);
    }
};

std::string uri(std::string_view prefix, std::uint32_t number) {
    return std::string(prefix) + "/" + std::to_string(number);
}

}  // namespace

TEST_CASE("a face that reuses a closed face's number receives none of its answers") {
    Crossing it;
    it.receive_interest(kNear, "/p/a", 1);
    it.node.close_face(kNear, it.now);
    CHECK_FALSE(it.node.is_open(kNear));
    CHECK(it.node.add_face(kNearOptions) == kNear);
    it.receive(kProducer, it.foreign_data("/p/a"));
    CHECK(it.sent(kNear).empty());
    CHECK(it.node.face_counters(kNear).interests_in == 0);
}

TEST_CASE("a face is distinguishable from the earlier face of its number") {
    Crossing it;
    const FaceNumber first = it.node.face_number(kNear);
    CHECK(it.node.find_face(first) == kNear);
    it.node.close_face(kNear, it.now);
    CHECK_FALSE(it.node.find_face(first));
    REQUIRE(it.node.add_face(kNearOptions) == kNear);
    CHECK_FALSE(it.node.find_face(first));
    CHECK(it.node.face_number(kNear) > it.node.face_number(kProducer));
    CHECK(it.node.find_face(it.node.face_number(kNear)) == kNear);
}

TEST_CASE("face numbers are reused in the order of closing") {
    Crossing it;
    it.node.close_face(kFar, it.now);
    it.node.close_face(kNear, it.now);
    CHECK(it.node.add_face() == kFar);
    CHECK(it.node.add_face() == kNear);
    CHECK(it.node.add_face() == kProducer + 1);
}

TEST_CASE("a request that a closed face left open can go to the face that reuses its number") {
    Crossing it;
    it.node.add_route(name("/p"), kLink, 9);
    it.receive_interest(kNear, "/p/a", 1, {.lifetime = 4s});
    CHECK(it.sent(kProducer).size() == 1);
    it.node.close_face(kProducer, it.now);
    CHECK(it.sent(kLink).size() == 1);  // asked elsewhere
    CHECK(it.node.add_face(kFarOptions) == kProducer);
    it.node.add_route(name("/p"), kProducer, 0);
    it.wait(1s);
    it.receive_interest(kNear, "/p/a", 2);
    CHECK(it.sent(kProducer).size() == 1);
}

TEST_CASE("foreign faces receive no hellos and no Holds, and are never silent") {
    auto options = SwitchUnderTest::default_options();
    options.link_timeout = 800ms;
    Crossing it(options);
    it.node.set_application(&it.application);
    Production pending;
    pending.kind = Production::Kind::kPending;
    pending.missing = bytes("3");
    it.application.productions["/late"] = pending;
    it.receive_interest(kNear, "/late", 1);
    it.receive_interest(kLink, "/late", 2);
    it.wait(2ms);
    CHECK(it.node.face_counters(kNear).holds_out == 0);
    CHECK(it.node.face_counters(kLink).holds_out == 1);
    for (int tick = 0; tick < 20; ++tick) it.wait(100ms);
    CHECK(it.node.outbox().queue(kNear).empty());
    CHECK_FALSE(it.node.outbox().queue(kLink).empty());
    it.node.outbox().queue(kLink).clear();
    CHECK(it.node.is_silent(kLink));
    CHECK_FALSE(it.node.is_silent(kNear));
}

TEST_CASE("a Hold from a foreign face is ignored") {
    Crossing it;
    it.receive_interest(kLink, "/p/a", 1);
    const auto asked = it.sent(kProducer);
    REQUIRE(asked.size() == 1);
    it.receive(kProducer, it.hold("/p/a", asked[0].nonce, "3"));
    CHECK(it.sent(kLink).empty());
}

TEST_CASE("PIT tokens of every length are returned unchanged") {
    Crossing it;
    for (std::uint32_t size = 1; size <= wire::kMaxPitTokenSize; ++size) {
        const std::string token(size, static_cast<char>(size));
        it.receive_interest(kNear, uri("/p", size), size, {.token = token});
        it.receive(kProducer, it.foreign_data(uri("/p", size)));
        const auto answers = it.sent(kNear);
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].token == token);
    }
}

TEST_CASE("foreign programs get the reasons of Nacks that they know") {
    Crossing it;
    it.node.install_job(name("/job"), 1, nullptr);
    it.receive_interest(kNear, "/job/g0/0", 1);
    it.receive_interest(kNear, "/nowhere", 2);
    const auto answers = it.sent(kNear);
    REQUIRE(answers.size() == 2);
    for (const Sent& answer : answers) {
        CHECK(answer.kind == Sent::Kind::kNack);
        CHECK(answer.reason == wire::NackReason::kNoRoute);
    }
    CHECK(it.node.counters().forbidden_interests == 1);
}

TEST_CASE("a packet larger than a foreign face's limit is dropped and counted") {
    Crossing it;
    it.receive_interest(kNear, "/p/a", 1);
    it.receive_interest(kLink, "/p/a", 2);
    const std::string large(kMaxForeignPacketBytes, 'x');
    it.receive(kProducer, it.data("/p/a", large));
    CHECK(it.sent(kNear).empty());
    CHECK(it.sent(kLink).size() == 1);
    CHECK(it.node.face_counters(kNear).too_large_out == 1);
    CHECK(it.node.counters().too_large == 1);
}

TEST_CASE("names of /localhost are neither accepted from nor sent to other machines") {
    Crossing it;
    it.node.add_route(name("/localhost"), kFar, 0);
    it.node.add_route(name("/localhost"), kNear, 1);
    it.receive_interest(kFar, "/localhost/x", 1);
    CHECK(it.sent_everywhere() == 0);
    CHECK(it.node.face_counters(kFar).scope_violations_in == 1);
    const FaceId other = it.node.add_face(kNearOptions);
    it.receive_interest(other, "/localhost/x", 2);
    CHECK(it.sent(kFar).empty());
    CHECK(it.sent(kNear).size() == 1);
    it.receive(kFar, it.foreign_data("/localhost/x"));
    CHECK(it.node.counters().scope_violations == 2);
    it.receive(kNear, it.foreign_data("/localhost/x"));
    CHECK(it.sent(other).size() == 1);
}

TEST_CASE("a /localhop name crosses one hop and is not forwarded further") {
    Crossing it;
    it.node.add_route(name("/localhop"), kProducer, 0);
    it.receive_interest(kFar, "/localhop/x", 1);
    CHECK(it.sent(kProducer).empty());
    it.receive_interest(kNear, "/localhop/y", 2);
    CHECK(it.sent(kProducer).size() == 1);
}

TEST_CASE("cached Data of an unknown key answers remote requesters, and no local one") {
    auto options = SwitchUnderTest::default_options();
    options.cache_bytes = 1 << 20;
    Crossing it(options);
    it.node.set_application(&it.application);
    it.receive_interest(kNear, "/p/a", 1);
    it.receive(kProducer, it.foreign_data("/p/a"));
    CHECK(it.sent(kNear).size() == 1);
    it.sent(kProducer);
    CHECK(it.node.counters().cache_unverified_bytes > 0);

    it.receive_interest(kFar, "/p/a", 2);
    CHECK(it.sent(kFar).size() == 1);
    CHECK(it.sent(kProducer).empty());

    it.node.express(RequesterId::kApplication, name("/p/a").view(), {}, 1s);
    it.node.run_pending(it.now);
    CHECK(it.application.received.empty());
    CHECK(it.sent(kProducer).size() == 1);  // asked again, for what can be verified
    it.receive(kProducer, it.data("/p/a"));
    CHECK(it.application.received.size() == 1);
}

TEST_CASE("Data of an unknown key does not evict or replace verified Data") {
    auto options = SwitchUnderTest::default_options();
    options.cache_bytes = 64 << 10;
    Crossing it(options);
    it.node.install_job(name("/job"), 1, nullptr);
    const auto put = [&](const PacketRef& data, std::string_view uri_of, std::uint32_t nonce) {
        it.receive_interest(kLink, uri_of, nonce);
        it.receive(kProducer, data);
    };
    it.node.add_route(name("/job"), kProducer, 0);
    it.node.bind_face(kProducer, name("/job"));
    put(it.data("/job/kept"), "/job/kept", 1);
    it.node.bind_face(kProducer, {});
    for (std::uint32_t i = 0; i < 1000; ++i) {
        put(it.foreign_data(uri("/p", i)), uri("/p", i), 100 + i);
    }
    CHECK(it.node.counters().cache_evictions > 0);
    it.sent(kLink);
    it.receive_interest(kLink, "/job/kept", 5000);
    const auto answers = it.sent(kLink);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].kind == Sent::Kind::kData);
}

TEST_CASE("Data cached under a job's names before the job started is not served to its hosts") {
    Crossing it;
    it.node.add_route(name("/job"), kProducer, 0);
    it.receive_interest(kNear, "/job/g0/1", 1);
    it.receive(kProducer, it.foreign_data("/job/g0/1"));
    CHECK(it.sent(kNear).size() == 1);
    CHECK(it.node.counters().cache_entries == 1);
    it.node.install_job(name("/job"), 1, nullptr);
    CHECK(it.node.counters().cache_entries == 0);
    it.receive_interest(kLink, "/job/g0/1", 2);
    for (const Sent& sent : it.sent(kLink)) CHECK(sent.kind != Sent::Kind::kData);
}

TEST_CASE("an outsider's earlier Interests for a job's names receive nothing of the job") {
    Crossing it;
    it.node.add_route(name("/job"), kLink, 0);
    const FaceId other_link = it.node.add_face();
    it.receive_interest(kNear, "/job/g0/1", 1);
    it.receive_interest(other_link, "/job/g0/1", 2);
    it.receive_interest(kNear, "/job/g0/2", 3);
    CHECK(it.node.counters().pit_entries == 2);
    it.node.install_job(name("/job"), 1, nullptr);
    CHECK(it.node.counters().pit_entries == 1);
    it.receive(kLink, it.data("/job/g0/1"));
    CHECK(it.sent(kNear).empty());
    CHECK(it.sent(other_link).size() == 1);
}

TEST_CASE("a flood of Interests on one face leaves the other faces most of the table") {
    auto options = SwitchUnderTest::default_options();
    options.pit_capacity = 4096;
    Crossing it(options);
    constexpr std::uint32_t kFlood = 20000;
    for (std::uint32_t i = 0; i < kFlood; ++i) {
        it.receive_interest(kFar, uri("/p/flood", i), i + 1, {.lifetime = 60s});
    }
    const auto& counters = it.node.counters();
    CHECK(counters.pit_entries == 512);  // half of the quarter for foreign faces
    CHECK(it.node.face_counters(kFar).over_share_in == kFlood - 512);
    it.sent(kFar);
    std::size_t served = 0;
    for (std::uint32_t i = 0; i < 1000; ++i) {
        // A window of 50, as a program that fetches has.
        it.receive_interest(kNear, uri("/p/served", i), kFlood + i + 1);
        if (i % 50 != 49) continue;
        for (std::uint32_t answered = i - 49; answered <= i; ++answered) {
            it.receive(kProducer, it.foreign_data(uri("/p/served", answered)));
        }
        for (const Sent& answer : it.sent(kNear)) {
            served += answer.kind == Sent::Kind::kData ? 1 : 0;
        }
    }
    CHECK(served == 1000);
    CHECK(it.node.face_counters(kNear).over_share_in == 0);
}

TEST_CASE("programs can request a host's job names; their answers under those names are dropped") {
    Crossing it;
    it.node.install_job(name("/job"), 1, nullptr);
    it.node.let_programs_ask(name("/job"));
    it.node.add_route(name("/job"), kProducer, 0);  // as a program registers it
    it.node.add_route(name("/job"), kLink, 1);
    it.receive_interest(kNear, "/job/g0/0", 1);
    CHECK(it.sent(kProducer).empty());
    CHECK(it.sent(kLink).size() == 1);
    it.receive(kProducer, it.foreign_data("/job/g0/0"));
    it.receive(kProducer, it.data("/job/g0/0", "signed with a key of the node's"));
    CHECK(it.sent(kNear).empty());
    CHECK(it.node.counters().forbidden_answers == 2);
    CHECK(it.node.counters().cache_entries == 0);
    it.receive(kLink, it.foreign_data("/job/g0/0"));
    CHECK(it.node.counters().unknown_key == 1);
    CHECK(it.node.counters().cache_entries == 0);
    it.receive(kLink, it.data("/job/g0/0", "true"));
    const auto answers = it.sent(kNear);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].content == "true");
    it.node.remove_job(name("/job"), it.now);
    it.node.install_job(name("/job"), 1, nullptr);
    it.receive_interest(kNear, "/job/g0/0", 2);
    CHECK(it.node.counters().forbidden_interests == 1);
}

TEST_CASE("an application's publication takes precedence over earlier reports of the name") {
    Crossing it;
    it.node.set_application(&it.application);
    it.receive_interest(kNear, "/p/a", 1);
    it.receive(kProducer, it.foreign_data("/p/a"));
    REQUIRE(it.sent(kNear).size() == 1);
    CHECK(it.node.counters().cache_entries == 1);
    it.receive_interest(kLink, "/p/a", 2);
    CHECK(it.sent(kLink).size() == 1);  // the application knows nothing of that name
    CHECK(it.node.counters().cache_hits == 1);
    Production pending;
    pending.kind = Production::Kind::kPending;
    pending.missing = bytes("3");
    it.application.productions["/p/a"] = pending;
    it.receive_interest(kLink, "/p/a", 3);
    it.wait(2ms);
    const auto held = it.sent(kLink);
    REQUIRE(held.size() == 1);
    CHECK(held[0].kind == Sent::Kind::kHold);
    it.wait(2s);
    Production made;
    made.kind = Production::Kind::kData;
    made.data = it.data("/p/a", "the application's");
    it.application.productions["/p/a"] = made;
    it.receive_interest(kLink, "/p/a", 4);
    const auto answers = it.sent(kLink);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].content == "the application's");
    CHECK(it.node.counters().cache_hits == 1);
}
