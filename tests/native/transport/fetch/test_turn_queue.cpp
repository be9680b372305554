#include <doctest/doctest.h>

#include <queue>

#include "transport/fetch/turn_queue.hpp"

namespace innet {
namespace {

TEST_CASE("turns are served in order, however many wait") {
    TurnQueue turns;
    std::queue<std::uint32_t> expected;
    std::uint32_t next = 0;
    for (const int waiting : {3, 16, 17, 5, 100, 0}) {
        for (int round = 0; round < 50; ++round) {
            turns.push(next);
            expected.push(next++);
            while (expected.size() > static_cast<std::size_t>(waiting)) {
                CHECK(turns.pop() == expected.front());
                expected.pop();
            }
        }
    }
    CHECK(turns.empty());
}

}  // namespace
}  // namespace innet
