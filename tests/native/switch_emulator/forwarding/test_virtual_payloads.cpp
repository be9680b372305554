// Packets that stand for more bytes than they hold: their lengths, wherever lengths count.

#include <doctest/doctest.h>

#include "switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

constexpr auto kSum = "/train1/g0/0-1/sum.f32/seq=41/seg=9";
constexpr std::size_t kVirtualBytes = 999 * sizeof(float);

/// Ranks 0 and 1 behind faces 0 and 1; face 2 asks.
struct Pair : SwitchUnderTest {
    explicit Pair(bool primary = true) : SwitchUnderTest(3) {
        reduction::Rule rule;
        rule.group = name("/train1/g0");
        rule.interval = name("/0-1");
        rule.primary = primary;
        for (const FaceId rank : {FaceId{0}, FaceId{1}}) {
            const std::string number = std::to_string(rank);
            node.add_route(name("/n/h" + number), rank, 1);
            rule.operands.push_back({name("/" + number), name("/n/h" + number)});
        }
        node.reducer().install(rule);
    }

    void give_operands(std::size_t virtual_bytes) {
        for (const FaceId rank : {FaceId{0}, FaceId{1}}) {
            PacketRef operand =
                tensor("/train1/g0/" + std::to_string(rank) + "/sum.f32/seq=41/seg=9", {1.0F});
            operand.set_virtual_bytes(virtual_bytes);
            receive(rank, operand);
        }
    }

    /// The length on the link of the only packet that waits for `face`.
    std::size_t length_sent(FaceId face) {
        const auto packets = sent(face);
        REQUIRE(packets.size() == 1);
        CHECK(packets[0].kind == Sent::Kind::kData);
        return packets[0].size;
    }

    /// Length of the sum on face 2 when its operands stand for so many bytes more.
    std::size_t length_of_sum(std::size_t virtual_bytes) {
        receive_interest(2, kSum, 1);
        give_operands(virtual_bytes);
        return length_sent(2);
    }
};

}  // namespace

TEST_CASE(
    "a sum of virtual segments is as long as its operands, on every link and from the cache") {
    const std::size_t real_length = Pair().length_of_sum(0);
    Pair leaf;
    leaf.receive_interest(0, kSum, 1);
    leaf.receive_interest(2, kSum, 2);
    leaf.give_operands(kVirtualBytes);
    const auto to_rank = leaf.sent(0);
    REQUIRE(to_rank.size() == 2);  // its operand was asked for, too
    CHECK(to_rank[1].size == real_length + kVirtualBytes);
    CHECK(leaf.length_sent(2) == real_length + kVirtualBytes);
    CHECK(leaf.node.counters().cache_bytes > kVirtualBytes);
    leaf.receive_interest(2, kSum, 3);
    CHECK(leaf.length_sent(2) == real_length + kVirtualBytes);
    CHECK(leaf.node.counters().cache_hits == 1);
}

TEST_CASE("a virtual sum that a node evaluates itself has the same length") {
    const std::size_t real_length = Pair().length_of_sum(0);
    Pair leaf(false);
    leaf.receive_interest(2, kSum, 1, {.hint = "/n/s0"});
    leaf.give_operands(kVirtualBytes);
    CHECK(leaf.length_sent(2) == real_length + kVirtualBytes);
}

TEST_CASE("counters of faces count the length that packets represent") {
    Pair real;
    Pair leaf;
    real.length_of_sum(0);
    leaf.length_of_sum(kVirtualBytes);
    for (const FaceId rank : {FaceId{0}, FaceId{1}}) {
        CHECK(leaf.node.face_counters(rank).bytes_in ==
              real.node.face_counters(rank).bytes_in + kVirtualBytes);
    }
    CHECK(leaf.node.face_counters(2).bytes_out ==
          real.node.face_counters(2).bytes_out + kVirtualBytes);
}
