#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "switch_emulator/reduction/keyed_queues.hpp"

using innet::reduction::KeyedQueues;

namespace {

std::vector<std::uint32_t> places(const KeyedQueues& queues, std::uint64_t key) {
    std::vector<std::uint32_t> found;
    for (auto place = queues.oldest(key); place != KeyedQueues::kNone; place = queues.newer(place))
        found.push_back(place);
    return found;
}

}  // namespace

TEST_CASE("a key's places are in the order of adding, without those of other keys") {
    KeyedQueues queues;
    queues.add(4, 100);
    queues.add(1, 200);
    queues.add(2, 100);
    queues.add(9, 100);
    queues.remove(2);
    CHECK(places(queues, 100) == std::vector<std::uint32_t>{4, 9});
    CHECK(places(queues, 200) == std::vector<std::uint32_t>{1});
    CHECK(places(queues, 300).empty());
    CHECK(queues.contains(9));
    CHECK_FALSE(queues.contains(2));
}

TEST_CASE("a queue ends with its last place, and another key may use its number") {
    KeyedQueues queues;
    for (std::uint64_t key = 1; key <= 1000; ++key) {
        queues.add(3, key);
        queues.add(5, key);
        queues.remove(3);
        queues.remove(5);
        REQUIRE(places(queues, key).empty());
    }
    queues.add(5, 7);
    queues.add(3, 8);
    CHECK(places(queues, 7) == std::vector<std::uint32_t>{5});
    CHECK(places(queues, 8) == std::vector<std::uint32_t>{3});
}
