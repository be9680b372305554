#include <doctest/doctest.h>

#include "switch_emulator/tables/dead_nonce_list.hpp"

using innet::tables::DeadNonceList;
namespace wire = innet::wire;

TEST_CASE("a nonce is dead for its own name only") {
    DeadNonceList list;
    list.add(0x1234, 7);
    CHECK(list.contains(0x1234, 7));
    CHECK_FALSE(list.contains(0x1234, 8));
    CHECK_FALSE(list.contains(0x1235, 7));
}

TEST_CASE("recent nonces are remembered, old ones forgotten, and memory stays bounded") {
    DeadNonceList list(1024);
    constexpr std::uint32_t kAdded = 100'000;
    constexpr wire::NameHash kName = 0x9e3779b97f4a7c15;
    for (std::uint32_t nonce = 0; nonce < kAdded; ++nonce) list.add(kName, nonce);
    const auto remembered = [&](std::uint32_t first, std::uint32_t end) {
        std::size_t count = 0;
        for (std::uint32_t nonce = first; nonce < end; ++nonce)
            count += list.contains(kName, nonce);
        return count;
    };
    CHECK(list.capacity() == 1024);
    CHECK(remembered(0, kAdded) <= list.capacity());
    CHECK(remembered(0, kAdded - 4 * 1024) == 0);
    CHECK(remembered(kAdded - 256, kAdded) >= 254);
    CHECK(remembered(kAdded - 8, kAdded) == 8);
}

TEST_CASE("the first nonces are all remembered while the list grows") {
    DeadNonceList list;
    constexpr std::uint32_t kAdded = 4000;  // a quarter of what there is room for
    std::size_t remembered = 0;
    for (std::uint32_t nonce = 0; nonce < kAdded; ++nonce) list.add(nonce * 31, nonce);
    for (std::uint32_t nonce = 0; nonce < kAdded; ++nonce) {
        remembered += list.contains(nonce * 31, nonce) ? 1 : 0;
    }
    CHECK(remembered >= kAdded - 4);  // now and then, nine of them share the last bucket
    CHECK(list.contains(31 * (kAdded - 1), kAdded - 1));
}
