#include <doctest/doctest.h>

#include <deque>
#include <random>
#include <set>

#include "switch_emulator/tables/fifo_hash_set.hpp"

using innet::tables::FifoHashSet;

TEST_CASE("a bounded set of hashes behaves as a set with a queue beside it") {
    constexpr std::size_t kCapacity = 37;
    FifoHashSet hashes(kCapacity);
    std::set<std::uint64_t> members;
    std::deque<std::uint64_t> order;
    std::mt19937_64 random(7);
    for (int step = 0; step < 20000; ++step) {
        const std::uint64_t hash = random() % 100;
        if (hash == 0) {
            hashes.forget_oldest();
            if (!order.empty()) {
                members.erase(order.front());
                order.pop_front();
            }
        } else if (!members.contains(hash)) {
            if (order.size() == kCapacity) {
                members.erase(order.front());
                order.pop_front();
            }
            members.insert(hash);
            order.push_back(hash);
            hashes.insert(hash);
        } else {
            hashes.insert(hash);
        }
        for (std::uint64_t probe = 1; probe < 100; probe += 13) {
            REQUIRE(hashes.contains(probe) == members.contains(probe));
        }
        REQUIRE(hashes.size() == order.size());
    }
}
