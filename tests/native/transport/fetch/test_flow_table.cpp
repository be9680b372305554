#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "transport/fetch/flow_table.hpp"

using innet::FlowTable;

namespace {

using Flows = FlowTable<std::string>;

Flows::Place find(const Flows& flows, std::uint64_t hash, const std::string& name) {
    return flows.find(hash, [&](const std::string& flow) { return flow == name; });
}

}  // namespace

TEST_CASE("a flow is found by its key among flows of the same hash") {
    Flows flows;
    CHECK(find(flows, 1, "a") == Flows::kNone);
    const auto a = flows.add(1, "a");
    const auto b = flows.add(1, "b");
    CHECK(find(flows, 1, "a") == a);
    CHECK(find(flows, 1, "b") == b);
    CHECK(find(flows, 2, "a") == Flows::kNone);
    CHECK(flows[b] == "b");
}

TEST_CASE("the flow that has been idle longest makes room for a new one") {
    Flows flows(3);
    const auto a = flows.add(1, "a");
    const auto b = flows.add(1, "b");
    const auto c = flows.add(2, "c");
    for (const auto flow : {a, b, c}) flows.use(flow);
    for (const auto flow : {b, a, c}) flows.leave(flow);
    CHECK(flows.add(3, "d") == b);
    CHECK(find(flows, 1, "b") == Flows::kNone);
    CHECK(find(flows, 1, "a") == a);
    CHECK(find(flows, 3, "d") == b);
    CHECK(flows.size() == 3);
}

TEST_CASE("flows in use stay, and freed entries are reused") {
    Flows flows(2);
    for (std::uint64_t i = 0; i < 10; ++i) flows.use(flows.add(i, std::to_string(i)));
    CHECK(flows.size() == 10);
    for (std::uint64_t i = 0; i < 10; ++i) {
        const auto place = find(flows, i, std::to_string(i));
        REQUIRE(place != Flows::kNone);
        CHECK(flows.in_use(place));
        flows.leave(place);
        CHECK(!flows.in_use(place));
    }
    for (std::uint64_t i = 0; i < 1000; ++i) flows.add(i, "later");
    CHECK(flows.size() == 10);
}

TEST_CASE("the earliest deadline is that of the flows in use, however they were changed") {
    struct Timed {
        innet::TimePoint deadline;
        innet::TimePoint next_deadline() const { return deadline; }
    };
    const auto at = [](int seconds) { return innet::TimePoint(std::chrono::seconds(seconds)); };
    FlowTable<Timed> flows;
    CHECK(flows.next_deadline() == innet::kNever);
    const auto a = flows.add(1, {at(5)});
    const auto b = flows.add(2, {at(3)});
    CHECK(flows.next_deadline() == innet::kNever);
    flows.use(a);
    flows.use(b);
    CHECK(flows.next_deadline() == at(3));
    flows[b].deadline = at(9);
    CHECK(flows.next_deadline() == at(5));
    flows[a].deadline = at(7);
    std::vector<FlowTable<Timed>::Place> due;
    flows.for_each_due(at(7), [&](auto place) { due.push_back(place); });
    CHECK(due == std::vector{a});
    flows.leave(a);
    CHECK(flows.next_deadline() == at(9));
}
