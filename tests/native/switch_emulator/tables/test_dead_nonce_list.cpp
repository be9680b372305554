#include <doctest/doctest.h>

#include <deque>
#include <random>
#include <set>

#include "switch_emulator/tables/dead_nonce_list.hpp"

using innet::tables::DeadNonceList;
using innet::tables::FifoHashSet;

TEST_CASE("a nonce is dead for its own name only") {
    DeadNonceList list;
    list.add(0x1234, 7);
    CHECK(list.contains(0x1234, 7));
    CHECK_FALSE(list.contains(0x1234, 8));
    CHECK_FALSE(list.contains(0x1235, 7));
}

TEST_CASE("the oldest nonces are forgotten first, and memory stays bounded") {
    DeadNonceList list(100);
    for (std::uint32_t nonce = 0; nonce < 1000; ++nonce) list.add(1, nonce);
    CHECK(list.size() == 100);
    CHECK_FALSE(list.contains(1, 899));
    CHECK(list.contains(1, 900));
    CHECK(list.contains(1, 999));
}

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
