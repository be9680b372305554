// Strategies are chosen by name for prefixes, at any time.

#include <doctest/doctest.h>

#include "../switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

constexpr auto kStrategies = "/localhost/nfd/strategy/";

wire::Name strategy(std::string_view rest) { return name(kStrategies + std::string(rest)); }

/// Three ways to /a, cheapest first: faces 1, 2 and 3.
struct ThreeWays : SwitchUnderTest {
    ThreeWays() {
        for (FaceId face = 1; face <= 3; ++face) node.add_route(name("/a"), face, face);
    }
    std::size_t asked(FaceId face) { return sent(face).size(); }
};

}  // namespace

TEST_CASE("the strategy of the longest prefix applies") {
    ThreeWays test;
    CHECK(test.node.set_strategy(name("/a"), strategy("multicast")));
    CHECK(test.node.set_strategy(name("/a/b"), strategy("best-route/v=5")));
    test.receive_interest(0, "/a/x", 1);
    CHECK(test.sent_everywhere() == 3);
    test.receive_interest(0, "/a/b/x", 2);
    CHECK(test.sent_everywhere() == 1);
    CHECK(test.node.unset_strategy(name("/a/b")));
    CHECK_FALSE(test.node.unset_strategy(name("/a/b")));
    test.receive_interest(0, "/a/b/y", 3);
    CHECK(test.sent_everywhere() == 3);
}

TEST_CASE("strategies are listed with their versions, the default for all other names first") {
    ThreeWays test;
    CHECK(test.node.set_strategy(name("/a"), strategy("asf/probing-interval~250")));
    auto all = test.node.strategies();
    REQUIRE(all.size() == 2);
    CHECK(all[0].prefix == wire::Name());
    CHECK(all[0].strategy == strategy("best-route/v=5"));
    CHECK(all[1].prefix == name("/a"));
    CHECK(all[1].strategy == strategy("asf/v=5/probing-interval~250"));
    CHECK(test.node.set_strategy(wire::Name(), strategy("clone")));
    all = test.node.strategies();
    REQUIRE(all.size() == 2);
    CHECK(all[0].strategy == strategy("clone/v=5"));
}

TEST_CASE("an unknown strategy is refused and changes nothing") {
    ThreeWays test;
    for (const auto wrong : {"teleport", "multicast/v=4", "asf/probing-interval~0", "asf/hurry~1",
                             "asf/max-timeouts~", "clone/copies~3", "asf/v=5/v=5"}) {
        CAPTURE(wrong);
        CHECK_FALSE(test.node.set_strategy(name("/a"), strategy(wrong)));
    }
    CHECK_FALSE(test.node.set_strategy(name("/a"), name("/localhost/nfd/strategy")));
    CHECK_FALSE(test.node.set_strategy(name("/a"), name("/multicast")));
    CHECK_FALSE(test.node.set_strategy(name("/a"), wire::Name()));
    CHECK(test.node.strategies().size() == 1);
}

TEST_CASE("a pending Interest moves to the new strategy when one is set") {
    ThreeWays test;
    CHECK(test.node.set_strategy(name("/a"), strategy("asf")));
    test.receive_interest(0, "/a/x", 1, {.lifetime = 4s});
    CHECK(test.asked(1) == 1);
    CHECK(test.node.set_strategy(name("/a"), strategy("multicast")));
    test.now += 60ms;
    test.receive_interest(0, "/a/x", 2, {.lifetime = 4s});
    CHECK(test.sent_everywhere() == 3);
    CHECK(test.node.unset_strategy(name("/a")));
    test.receive(2, test.data("/a/x"));
    CHECK(test.sent(0).size() == 1);
    CHECK(test.node.counters().pit_entries == 0);
}
