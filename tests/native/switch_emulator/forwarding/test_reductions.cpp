// A node and its reducer: placement, fallback, and what a sum is made from.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

constexpr FaceId kUpstream = 4;
constexpr auto kSum = "/train1/g0/0-3/sum.f32/seq=41/seg=9";

std::string numbered(std::string text, int number) { return text.append(std::to_string(number)); }

std::string operand_uri(int rank) {
    return numbered("/train1/g0/", rank).append("/sum.f32/seq=41/seg=9");
}

/// Ranks 0 to 3 behind faces 0 to 3; the rest of the network behind face 4.
struct Leaf : SwitchUnderTest {
    explicit Leaf(forwarding::NodeOptions options = default_options())
        : SwitchUnderTest(5, std::move(options)) {
        for (FaceId rank = 0; rank < 4; ++rank) {
            node.add_route(name(numbered("/n/h", rank)), rank, 1);
        }
        node.add_route(name("/n/s1"), kUpstream, 1);
    }

    void install(bool primary, const std::string& ahead_to = {}) {
        reduction::Rule rule;
        if (!ahead_to.empty()) rule.ahead_to = {name(ahead_to)};
        rule.group = name("/train1/g0");
        rule.interval = name("/0-3");
        rule.primary = primary;
        for (int rank = 0; rank < 4; ++rank) {
            rule.operands.push_back({name(numbered("/", rank)), name(numbered("/n/h", rank))});
        }
        node.reducer().install(rule);
    }

    /// Whether exactly the Interest for that rank's operand left towards it.
    bool operand_was_asked(int rank) {
        const auto packets = sent(static_cast<FaceId>(rank));
        return packets.size() == 1 && packets[0].kind == Sent::Kind::kInterest &&
               packets[0].name == operand_uri(rank);
    }
    bool all_operands_were_asked() {
        bool all = true;
        for (int rank = 0; rank < 4; ++rank) all = operand_was_asked(rank) && all;
        return all;
    }
    bool all_hosts_got_nothing() {
        bool all = true;
        for (FaceId face = 0; face < 4; ++face) all = sent(face).empty() && all;
        return all;
    }
    /// The Data with one bit of its content changed.
    PacketRef damaged(const PacketRef& good) {
        PacketRef bad = pool.copy_of(good.bytes());
        const auto content = wire::DataView::parse(good.bytes())->content();
        bad.writable()[static_cast<std::size_t>(content.data() - good.bytes().data())] ^= 1;
        return bad;
    }
    void give_operand(int rank) {
        receive(static_cast<FaceId>(rank),
                tensor(operand_uri(rank), {1.0F + static_cast<float>(rank)}));
    }
};

float only_element(const Sent& packet) {
    REQUIRE(packet.content.size() == sizeof(float));
    float element = 0;
    std::memcpy(&element, packet.content.data(), sizeof(element));
    return element;
}

}  // namespace

TEST_CASE("all ranks request the sum: each operand is fetched once, each rank receives it once") {
    Leaf leaf;
    leaf.install(true);
    for (FaceId face = 0; face < 4; ++face) {
        leaf.receive_interest(face, kSum, 100U + face, {.hint = "/n/s0"});
    }
    CHECK(leaf.all_operands_were_asked());
    for (int rank = 3; rank >= 0; --rank) leaf.give_operand(rank);
    for (FaceId face = 0; face < 4; ++face) {
        const auto answers = leaf.sent(face);
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].kind == Sent::Kind::kData);
        CHECK(only_element(answers[0]) == 10.0F);
    }
    CHECK(leaf.sent(kUpstream).empty());
    CHECK(leaf.node.counters().pit_entries == 0);
}

TEST_CASE("the sum is cached, its operands are not") {
    Leaf leaf;
    leaf.install(true);
    leaf.receive_interest(0, kSum, 1);
    for (int rank = 0; rank < 4; ++rank) leaf.give_operand(rank);
    CHECK(leaf.node.counters().cache_entries == 1);
    leaf.sent_everywhere();
    leaf.receive_interest(3, kSum, 2);
    CHECK(leaf.sent(3).size() == 1);
    CHECK(leaf.node.reducer().counters().reductions_started == 1);
}

TEST_CASE("a sum placed on another node is not evaluated on the path") {
    Leaf leaf;
    leaf.install(true);
    leaf.receive_interest(0, kSum, 1, {.hint = "/n/s1"});
    CHECK(leaf.sent(kUpstream).size() == 1);
    CHECK(leaf.node.reducer().counters().reductions_started == 0);
}

TEST_CASE("a rule that is not primary evaluates when the placed node refuses") {
    Leaf leaf;
    leaf.install(false);
    leaf.receive_interest(0, kSum, 1, {.hint = "/n/s1"});
    leaf.sent(kUpstream);
    leaf.receive(kUpstream, leaf.nack(kSum, 1, wire::NackReason::kNoSlot));
    CHECK(leaf.all_operands_were_asked());
    for (int rank = 0; rank < 4; ++rank) leaf.give_operand(rank);
    const auto answers = leaf.sent(0);
    REQUIRE(answers.size() == 1);
    CHECK(only_element(answers[0]) == 10.0F);
}

TEST_CASE("a secondary rule evaluates when the placed node is unreachable") {
    Leaf leaf;
    leaf.install(false);
    leaf.receive_interest(0, kSum, 1, {.hint = "/n/s1"});
    leaf.node.close_face(kUpstream, leaf.now);
    CHECK(leaf.all_operands_were_asked());
}

TEST_CASE("a requester can have its own node evaluate while its Interest is pending") {
    Leaf leaf;
    leaf.install(false);
    leaf.node.express(RequesterId::kApplication, name(kSum).view(), name("/n/s1").view(), 1s);
    leaf.node.run_pending(leaf.now);
    CHECK(leaf.sent(kUpstream).size() == 1);
    leaf.node.express(RequesterId::kApplication, name(kSum).view(), name("/n/s0").view(), 1s);
    leaf.node.run_pending(leaf.now);
    CHECK(leaf.all_operands_were_asked());
    for (int rank = 0; rank < 4; ++rank) leaf.give_operand(rank);
    CHECK(leaf.application.received.size() == 1);
}

TEST_CASE("an answer from another node ends a local reduction of the same name") {
    Leaf leaf;
    leaf.install(false);
    for (const char* hint : {"/n/s1", "/n/s0"}) {
        leaf.node.express(RequesterId::kApplication, name(kSum).view(), name(hint).view(), 1s);
        leaf.node.run_pending(leaf.now);
    }
    leaf.receive(kUpstream, leaf.tensor(kSum, {10.0F}));
    CHECK(leaf.application.received.size() == 1);
    CHECK(leaf.node.reducer().counters().slots_in_use == 0);
    CHECK(leaf.node.counters().pit_entries == 0);
}

TEST_CASE("without a slot: Nack NoSlot") {
    auto options = SwitchUnderTest::default_options();
    options.reducer.slots = 0;
    Leaf leaf(options);
    leaf.install(true);
    leaf.receive_interest(0, kSum, 1, {.hint = "/n/s0"});
    const auto answers = leaf.sent(0);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].reason == wire::NackReason::kNoSlot);
}

TEST_CASE("a Hold for an operand reaches the requesters of the sum") {
    Leaf leaf;
    leaf.install(true);
    leaf.receive_interest(0, kSum, 1, {.hint = "/n/s0"});
    leaf.receive_interest(1, kSum, 2, {.hint = "/n/s0"});
    leaf.sent(0);
    leaf.sent(1);
    const auto asked = leaf.sent(3);
    REQUIRE(asked.size() == 1);
    leaf.receive(3, leaf.hold(operand_uri(3), asked[0].nonce, "3"));
    for (FaceId face = 0; face < 2; ++face) {
        const auto holds = leaf.sent(face);
        REQUIRE(holds.size() == 1);
        CHECK(holds[0].kind == Sent::Kind::kHold);
        CHECK(holds[0].name == kSum);
        CHECK(holds[0].missing == "3");
    }
    leaf.receive_interest(0, kSum, 3, {.hint = "/n/s0"});
    REQUIRE(leaf.sent(0).size() == 1);
}

TEST_CASE("a reduction without requesters ends: expiry") {
    Leaf leaf;
    leaf.install(true);
    leaf.receive_interest(0, kSum, 1, {.lifetime = 100ms});
    CHECK(leaf.node.reducer().counters().slots_in_use == 1);
    leaf.wait(101ms);
    leaf.node.run_pending(leaf.now);
    CHECK(leaf.node.reducer().counters().slots_in_use == 0);
    CHECK(leaf.node.counters().pit_entries == 0);
}

TEST_CASE("a reduction without requesters ends: cancellation") {
    Leaf leaf;
    leaf.install(true);
    leaf.node.express(RequesterId::kApplication, name(kSum).view(), {}, 1s);
    leaf.node.cancel(RequesterId::kApplication, name(kSum).view());
    leaf.node.run_pending(leaf.now);
    CHECK(leaf.node.reducer().counters().reductions_abandoned == 1);
    CHECK(leaf.node.counters().pit_entries == 0);
}

TEST_CASE("a repeated request at a sum's end starts no reduction without a requester") {
    Leaf leaf;
    leaf.install(true);
    // Before the sum asks for it, so that the application hears of the operand first.
    leaf.node.express(RequesterId::kApplication, name(operand_uri(3)).view(), name("/n/h3").view(),
                      1s);
    leaf.node.express(RequesterId::kApplication, name(kSum).view(), {}, 1s);
    leaf.node.run_pending(leaf.now);
    bool asked = false;
    const auto ask_for_sum = [&] {
        if (std::exchange(asked, true)) return;
        leaf.node.express(RequesterId::kApplication, name(kSum).view(), {}, 1s);
    };
    const std::uint32_t nonce = leaf.sent(3).at(0).nonce;

    SUBCASE("it is made") {
        for (int rank = 0; rank < 3; ++rank) leaf.give_operand(rank);
        leaf.application.when_received = ask_for_sum;
        leaf.give_operand(3);
        CHECK(leaf.application.received == std::vector<std::string>{operand_uri(3), kSum});
        CHECK(leaf.node.reducer().counters().slots_in_use == 0);
    }
    SUBCASE("it is refused") {
        leaf.application.when_nacked = ask_for_sum;
        leaf.receive(3, leaf.nack(operand_uri(3), nonce, wire::NackReason::kNoRoute));
        CHECK(leaf.node.reducer().counters().slots_in_use == 1);
        for (int rank = 0; rank < 4; ++rank) leaf.give_operand(rank);
        CHECK(leaf.application.received == std::vector<std::string>{kSum});
    }
    AuditReport report;
    leaf.node.audit(report);
    CHECK(report.complaints().empty());
    CHECK(leaf.node.counters().pit_entries == 0);
}

TEST_CASE("a tampered operand never enters a sum, and the operation recovers by itself") {
    Leaf leaf;
    leaf.install(true);
    leaf.receive_interest(0, kSum, 1);
    for (int rank = 0; rank < 3; ++rank) leaf.give_operand(rank);
    const PacketRef good = leaf.tensor(operand_uri(3), {4.0F});
    const PacketRef bad = leaf.damaged(good);
    leaf.sent_everywhere();
    SUBCASE("by damage") { leaf.receive(3, bad); }
    SUBCASE("by another key") { leaf.receive(3, leaf.foreign_data(operand_uri(3))); }
    CHECK(leaf.node.reducer().counters().reductions_completed == 0);
    // A cache that cannot verify would answer with the same Data again.
    const auto repetitions = leaf.sent(3);
    REQUIRE(repetitions.size() == 1);
    CHECK(repetitions[0].name == operand_uri(3));
    CHECK(repetitions[0].must_be_fresh);
    leaf.receive(3, bad);
    leaf.receive(3, leaf.foreign_data(operand_uri(3)));
    CHECK(leaf.sent(3).empty());
    leaf.receive(3, good);
    const auto answers = leaf.sent(0);
    REQUIRE(answers.size() == 1);
    CHECK(only_element(answers[0]) == 10.0F);
}

TEST_CASE("a contribution that arrives before its request is added") {
    Leaf leaf;
    leaf.install(true);
    for (int rank = 0; rank < 4; ++rank) leaf.give_operand(rank);
    for (FaceId face = 0; face < 4; ++face) {
        leaf.receive_interest(face, kSum, 100U + face, {.hint = "/n/s0"});
    }
    for (FaceId face = 0; face < 4; ++face) {
        const auto packets = leaf.sent(face);
        REQUIRE(packets.size() == 1);
        CHECK(packets[0].kind == Sent::Kind::kData);
        CHECK(only_element(packets[0]) == 10.0F);
    }
    CHECK(leaf.node.counters().unsolicited_data == 0);
}

TEST_CASE("a forged contribution sent ahead is dropped, and its rank is requested") {
    Leaf leaf;
    leaf.install(true);
    leaf.receive(0, leaf.damaged(leaf.tensor(operand_uri(0), {1.0F})));
    CHECK(leaf.node.counters().invalid_signature == 1);
    leaf.give_operand(1);
    leaf.receive_interest(0, kSum, 100, {.hint = "/n/s0"});
    leaf.wait(2ms);
    CHECK(leaf.operand_was_asked(0));
    CHECK(leaf.sent(1).empty());
    for (const int rank : {0, 2, 3}) leaf.give_operand(rank);
    const auto packets = leaf.sent(0);
    REQUIRE(packets.size() == 1);
    CHECK(only_element(packets[0]) == 10.0F);
}

TEST_CASE(
    "a sum of contributions that came ahead is sent to the next switch, and once more to order") {
    Leaf leaf;
    leaf.install(true, "/n/s1");
    for (int rank = 0; rank < 4; ++rank) leaf.give_operand(rank);
    for (const bool is_requested : {false, true}) {
        if (is_requested) leaf.receive_interest(kUpstream, kSum, 7, {.hint = "/n/s0"});
        const auto packets = leaf.sent(kUpstream);
        REQUIRE(packets.size() == 1);
        CHECK(packets[0].kind == Sent::Kind::kData);
        CHECK(packets[0].name == kSum);
        CHECK(only_element(packets[0]) == 10.0F);
    }
    CHECK(leaf.all_hosts_got_nothing());
}

TEST_CASE("no sum is sent ahead to programs outside the network") {
    Leaf leaf;
    const FaceId outside = leaf.node.add_face({.foreign = true});
    leaf.node.add_route(name("/n/outside"), outside, 1);
    leaf.install(true, "/n/outside");
    for (int rank = 0; rank < 4; ++rank) leaf.give_operand(rank);
    CHECK(leaf.sent(outside).empty());
}

TEST_CASE("a forged sum sent ahead is dropped, and its switch is requested") {
    SwitchUnderTest spine(3);
    spine.node.add_route(name("/n/leaf0"), 0, 1);
    spine.node.add_route(name("/n/leaf1"), 1, 1);
    reduction::Rule rule;
    rule.group = name("/train1/g0");
    rule.interval = name("/0-3");
    rule.operands = {{name("/0-1"), name("/n/leaf0")}, {name("/2-3"), name("/n/leaf1")}};
    spine.node.reducer().install(rule);
    const std::string kind = "/sum.f32/seq=41/seg=9";
    spine.receive(1, spine.tensor("/train1/g0/2-3" + kind, {3.0F}));
    const std::string sum = "/train1/g0/0-1" + kind;
    SUBCASE("by another key") {
        spine.receive(0, spine.foreign_data(sum));
        CHECK(spine.node.counters().invalid_signature + spine.node.counters().unknown_key == 1);
    }
    SUBCASE("of no rule") { spine.receive(0, spine.tensor("/train1/g0/0-2" + kind, {3.0F})); }
    spine.receive_interest(2, "/train1/g0/0-3" + kind, 1, {.hint = "/n/s0"});
    spine.wait(2ms);
    const auto asked = spine.sent(0);
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].kind == Sent::Kind::kInterest);
    CHECK(asked[0].name == sum);
    spine.receive(0, spine.tensor(sum, {1.0F}));
    const auto answers = spine.sent(2);
    REQUIRE(answers.size() == 1);
    CHECK(only_element(answers[0]) == 4.0F);
}

TEST_CASE("the reducer reads its own node's operand unsigned, and the sum is signed") {
    Leaf leaf;
    leaf.install(true);
    const PacketRef own = leaf.tensor(operand_uri(3), {4.0F});
    PacketRef unsigned_own = leaf.pool.copy_of(own.bytes());
    const auto signature = wire::DataView::parse(own.bytes())->signature_value();
    const auto offset = static_cast<std::size_t>(signature.data() - own.bytes().data());
    std::ranges::fill(unsigned_own.writable().subspan(offset, signature.size()), std::uint8_t{0});
    Production production;
    production.kind = Production::Kind::kData;
    production.data = unsigned_own;
    leaf.application.productions[operand_uri(3)] = production;
    leaf.receive_interest(0, kSum, 1);
    for (int rank = 0; rank < 3; ++rank) leaf.give_operand(rank);
    leaf.sent(1);
    leaf.sent(2);
    const auto& queue = leaf.node.outbox().queue(0);
    REQUIRE(!queue.empty());
    const auto sum = wire::DataView::parse(queue.back().payload.bytes());
    REQUIRE(sum);
    CHECK(leaf.keyring.verify(*sum) == security::Verdict::kValid);
    CHECK(leaf.node.counters().cache_entries == 1);
    CHECK(leaf.sent(3).empty());
    leaf.application.productions.clear();
}
