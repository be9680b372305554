// Clients fill no table beyond its bound.

#include <doctest/doctest.h>

#include "managed_node.hpp"

using namespace innet;
using namespace innet::testing;
using management::ControlParameters;

namespace {

ControlParameters choice(std::string_view prefix) {
    ControlParameters parameters = named(prefix);
    parameters.strategy = name("/localhost/nfd/strategy/multicast");
    return parameters;
}

}  // namespace

TEST_CASE("next hops beyond the FIB's bound are refused, existing ones can be changed") {
    auto options = ManagedNode::default_options();
    options.max_next_hops = 2;
    ManagedNode managed(options);
    CHECK(managed.command(2, "fib/add-nexthop", named("/a")).code == 200);
    CHECK(managed.command(3, "fib/add-nexthop", named("/a")).code == 200);
    const Response refused = managed.command(4, "fib/add-nexthop", named("/a"));
    CHECK(refused.code == 503);
    CHECK(refused.body.name == name("/a"));
    CHECK(managed.command(4, "rib/register", named("/b")).code == 503);
    CHECK(managed.management.counters().full == 2);
    ControlParameters dearer = named("/a");
    dearer.cost = 7;
    CHECK(managed.command(2, "fib/add-nexthop", dearer).code == 200);
    CHECK(managed.command(3, "fib/remove-nexthop", named("/a")).code == 200);
    CHECK(managed.command(4, "fib/add-nexthop", named("/b")).code == 200);
    CHECK(managed.routes() == std::vector<std::string>{"/a>2/7", "/b>4/0"});
}

TEST_CASE("inherited routes of longer prefixes count") {
    auto options = ManagedNode::default_options();
    options.max_next_hops = 4;
    ManagedNode managed(options);
    for (const char* prefix : {"/a/1", "/a/2"}) {
        CHECK(managed.command(2, "rib/register", named(prefix)).code == 200);
    }
    CHECK(managed.command(3, "rib/register", named("/a")).code == 200);  // three next hops
    CHECK(managed.node.node.route_count() == 5);
    CHECK(managed.command(4, "rib/register", named("/a")).code == 503);
}

TEST_CASE("a route without room is not inherited, but its cost can change") {
    auto options = ManagedNode::default_options();
    options.max_next_hops = 3;
    ManagedNode managed(options);
    ControlParameters shorter = named("/a");
    shorter.flags = 0;
    CHECK(managed.command(3, "rib/register", shorter).code == 200);
    for (const char* prefix : {"/a/1", "/a/2"}) {
        CHECK(managed.command(2, "rib/register", named(prefix)).code == 200);
    }
    shorter.cost = 7;
    CHECK(managed.command(3, "rib/register", shorter).code == 200);
    shorter.flags = management::kChildInherit;
    CHECK(managed.command(3, "rib/register", shorter).code == 503);
    CHECK(managed.routes() == std::vector<std::string>{"/a>3/7", "/a/1>2/0", "/a/2>2/0"});
}

TEST_CASE("a closed face's next hops make room for others'") {
    auto options = ManagedNode::default_options();
    options.max_next_hops = 1;
    ManagedNode managed(options);
    CHECK(managed.command(2, "fib/add-nexthop", named("/a")).code == 200);
    CHECK(managed.command(3, "fib/add-nexthop", named("/b")).code == 503);
    managed.node.node.close_face(2, managed.node.now);
    CHECK(managed.node.node.route_count() == 0);
    CHECK(managed.command(3, "fib/add-nexthop", named("/b")).code == 200);
}

TEST_CASE("strategy choices beyond the bound are refused, existing ones can be changed") {
    auto options = ManagedNode::default_options();
    options.max_strategy_choices = 2;
    ManagedNode managed(options);
    CHECK(managed.command(2, "strategy-choice/set", choice("/a")).code == 200);
    CHECK(managed.command(2, "strategy-choice/set", choice("/b")).code == 200);
    CHECK(managed.command(2, "strategy-choice/set", choice("/c")).code == 503);
    CHECK(managed.management.counters().full == 1);
    CHECK(managed.command(2, "strategy-choice/set", choice("/b")).code == 200);
    CHECK(managed.command(2, "strategy-choice/unset", named("/a")).code == 200);
    CHECK(managed.command(2, "strategy-choice/set", choice("/c")).code == 200);
}

TEST_CASE("names of many bytes are refused as prefixes") {
    ManagedNode managed;
    const std::string long_name = "/" + std::string(1100, 'x');
    CHECK(managed.command(2, "fib/add-nexthop", named(long_name)).code == 414);
    CHECK(managed.command(2, "rib/register", named(long_name)).code == 414);
    CHECK(managed.command(2, "strategy-choice/set", choice(long_name)).code == 414);
}
