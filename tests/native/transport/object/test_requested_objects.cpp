// What a node was asked for, until somebody takes it.

#include "object_hosts.hpp"
#include "transport/object/requested_objects.hpp"

using namespace innet;
using namespace innet::testing;

TEST_CASE("the oldest of many unused objects are evicted, kept ones are not") {
    RequestedObjects asked;
    const auto kept =
        std::make_shared<KeptObject>(name("/kept"), 0, std::make_shared<MemoryBudget>(1));
    const wire::Name given = name("/given");
    asked.add_kept(kept, TimePoint(1h), false);
    constexpr std::size_t kGiven = 200'000;
    for (std::size_t i = 0; i < kGiven; ++i) asked.add_served(given.view(), TimePoint(1h));
    const auto told = asked.take();
    REQUIRE(told.size() > 1);
    CHECK(told.size() < kGiven / 2);
    CHECK(told[0].kept == kept);
    CHECK(told.back().name == given);
    CHECK(asked.take().empty());
}
