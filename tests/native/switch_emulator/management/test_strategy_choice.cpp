#include <doctest/doctest.h>

#include <algorithm>

#include "managed_node.hpp"

using namespace innet;
using namespace innet::testing;
using management::ControlParameters;
using test::tlv;

namespace {

ControlParameters choice(std::string_view prefix, std::string_view strategy) {
    ControlParameters parameters = named(prefix);
    parameters.strategy = name(strategy);
    return parameters;
}

std::string strategy_of(ManagedNode& managed, std::string_view prefix) {
    const auto choices = managed.node.node.strategies();
    const auto found =
        std::ranges::find(choices, name(prefix), &forwarding::StrategyChoice::prefix);
    return found == choices.end() ? "" : found->strategy.view().to_uri();
}

test::Bytes name_element(std::string_view uri) {
    const wire::Name whole = name(uri);
    return tlv(wire::kName, {{whole.view().value().begin(), whole.view().value().end()}});
}

}  // namespace

TEST_CASE("a strategy is chosen by its name, and the answer has its version") {
    ManagedNode managed;
    Response response = managed.command(2, "strategy-choice/set",
                                        choice("/a", "/localhost/nfd/strategy/multicast"));
    CHECK(response.code == 200);
    CHECK(response.body.name == name("/a"));
    const std::string whole = strategy_of(managed, "/a");
    CHECK(whole.starts_with("/localhost/nfd/strategy/multicast/v="));
    CHECK(response.body.strategy == name(whole));
    const std::string default_strategy = strategy_of(managed, "/");
    CHECK(managed.dataset(2, "/localhost/nfd/strategy-choice/list") ==
          test::join({tlv(0x80, {name_element("/"), tlv(0x6b, {name_element(default_strategy)})}),
                      tlv(0x80, {name_element("/a"), tlv(0x6b, {name_element(whole)})})}));
    response = managed.command(2, "strategy-choice/unset", named("/a"));
    CHECK(response.code == 200);
    CHECK(response.body.name == name("/a"));
    CHECK(strategy_of(managed, "/a").empty());
    CHECK(managed.command(2, "strategy-choice/unset", named("/a")).code == 200);
}

TEST_CASE("multicast delivers Interests to every registered face") {
    ManagedNode managed;
    CHECK(
        managed.command(2, "strategy-choice/set", choice("/a", "/localhost/nfd/strategy/multicast"))
            .code == 200);
    for (const FaceId face : {FaceId{2}, FaceId{3}, FaceId{4}}) {
        CHECK(managed.command(face, "rib/register", named("/a")).code == 200);
    }
    managed.node.receive_interest(2, "/a/x", 77);
    CHECK(managed.node.sent(2).empty());
    CHECK(managed.node.sent(3).size() == 1);
    CHECK(managed.node.sent(4).size() == 1);
}

TEST_CASE("an unknown strategy is refused; the default strategy stays") {
    ManagedNode managed;
    const Response unknown =
        managed.command(2, "strategy-choice/set", choice("/a", "/localhost/nfd/strategy/luck"));
    CHECK(unknown.code == 404);
    CHECK(unknown.body.strategy == name("/localhost/nfd/strategy/luck"));
    CHECK(managed.command(2, "strategy-choice/set", named("/a")).code == 400);
    CHECK(managed.command(2, "strategy-choice/unset", named("/")).code == 400);
    CHECK(strategy_of(managed, "/a").empty());
}
