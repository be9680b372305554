#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "transport/buffer/packet_ref.hpp"

using innet::PacketPool;
using innet::PacketRef;

namespace {

std::vector<std::uint8_t> counting(std::size_t size) {
    std::vector<std::uint8_t> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i);
    return bytes;
}

}  // namespace

TEST_CASE("a buffer has the requested size, up to the largest packet") {
    PacketPool pool;
    for (const std::size_t size : {0, 1, 255, 256, 257, 2048, 2049, 9216, 9217, 65536}) {
        CAPTURE(size);
        PacketRef packet = pool.allocate(size);
        REQUIRE(packet);
        CHECK(packet.size() == size);
        CHECK(packet.writable().size() == size);
        CHECK(packet.pinned_bytes() >= size);
        std::ranges::fill(packet.writable(), std::uint8_t{0xaa});
    }
    CHECK(pool.allocate(innet::kMaxPacketBytes));
    CHECK_FALSE(pool.allocate(innet::kMaxPacketBytes + 1));
    CHECK_FALSE(pool.allocate(std::size_t{1} << 40));
}

TEST_CASE("copies share bytes; the buffer returns with the last one") {
    PacketPool pool;
    PacketRef first = pool.copy_of(counting(100));
    CHECK(first.unique());
    {
        const PacketRef second = first;
        CHECK_FALSE(first.unique());
        CHECK(first.writable().empty());
        CHECK(second.bytes().data() == first.bytes().data());
        first = PacketRef();
        CHECK_FALSE(first);
        CHECK(second.unique());
        CHECK(pool.bytes_in_use() == second.pinned_bytes());
    }
    CHECK(pool.bytes_in_use() == 0);
}

TEST_CASE("moving and assigning to itself keeps the count right") {
    PacketPool pool;
    PacketRef packet = pool.copy_of(counting(10));
    PacketRef& alias = packet;
    packet = alias;
    CHECK(packet.unique());
    packet = std::move(alias);
    REQUIRE(packet);
    CHECK(packet.unique());
    PacketRef moved = std::move(packet);
    CHECK(moved.unique());
    CHECK(moved.size() == 10);
    PacketRef other = pool.allocate(1);
    other = std::move(moved);
    CHECK(other.size() == 10);
    CHECK(pool.bytes_in_use() == other.pinned_bytes());
}

TEST_CASE("slices show parts and keep the buffer alive") {
    PacketPool pool;
    PacketRef part;
    {
        const PacketRef packet = pool.copy_of(counting(100));
        const PacketRef middle = packet.slice(10, 50);
        part = middle.slice_of(middle.bytes().subspan(5, 3));
        CHECK(packet.slice_of({}).size() == 0);
        CHECK(packet.slice(100, 0).size() == 0);
    }
    CHECK(part.size() == 3);
    CHECK(part.bytes()[0] == 15);
    CHECK(part.pinned_bytes() >= 100);
    CHECK(part.unique());
    part.truncate(1);
    CHECK(part.bytes().size() == 1);
    CHECK(part.bytes()[0] == 15);
}

TEST_CASE("an empty reference has no bytes") {
    PacketRef nothing;
    CHECK_FALSE(nothing);
    CHECK(nothing.bytes().empty());
    CHECK(nothing.writable().empty());
    CHECK(nothing.size() == 0);
    CHECK(nothing.pinned_bytes() == 0);
    CHECK_FALSE(nothing.unique());
}

TEST_CASE("buffers held at the same time never overlap") {
    PacketPool pool;
    std::vector<PacketRef> held;
    for (std::size_t i = 0; i < 500; ++i) held.push_back(pool.allocate(1 + i * 37 % 3000));
    for (std::size_t i = 0; i < held.size(); ++i) {
        std::ranges::fill(held[i].writable(), static_cast<std::uint8_t>(i));
    }
    for (std::size_t i = 0; i < held.size(); ++i) {
        const auto bytes = held[i].bytes();
        CHECK(std::ranges::all_of(
            bytes, [&](std::uint8_t byte) { return byte == static_cast<std::uint8_t>(i); }));
    }
}

TEST_CASE("a warm pool takes no more memory") {
    PacketPool pool;
    const auto burst = [&] {
        std::vector<PacketRef> held;
        for (std::size_t i = 0; i < 300; ++i) held.push_back(pool.allocate(i * 40));
    };
    burst();
    const std::size_t reserved = pool.bytes_reserved();
    CHECK(reserved > 0);
    for (int round = 0; round < 20; ++round) burst();
    CHECK(pool.bytes_reserved() == reserved);
    CHECK(pool.bytes_in_use() == 0);
}

TEST_CASE("the counters agree with the held Interests in every order of events") {
    std::mt19937 random(7);
    PacketPool pool;
    std::vector<PacketRef> held;
    for (int round = 0; round < 5000; ++round) {
        if (held.empty() || random() % 3 != 0) {
            held.push_back(pool.allocate(random() % 10000));
        } else {
            const auto victim = held.begin() + static_cast<std::ptrdiff_t>(random() % held.size());
            std::swap(*victim, held.back());
            held.pop_back();
        }
    }
    std::size_t expected = 0;
    for (const PacketRef& packet : held) expected += packet.pinned_bytes();
    CHECK(pool.bytes_in_use() == expected);
    CHECK(pool.bytes_reserved() >= expected);
}

TEST_CASE("all slices and copies of a buffer report its virtual bytes") {
    PacketPool pool;
    {
        PacketRef packet = pool.copy_of(counting(100));
        CHECK(packet.virtual_bytes() == 0);
        packet.set_virtual_bytes(1'000'000);
        CHECK(packet.slice(10, 20).virtual_bytes() == 1'000'000);
        CHECK(packet.size() == 100);
        CHECK(pool.copy_of(packet).virtual_bytes() == 1'000'000);
        CHECK(pool.copy_of(packet.bytes()).virtual_bytes() == 0);
    }
    for (int i = 0; i < 20; ++i) CHECK(pool.copy_of(counting(100)).virtual_bytes() == 0);
    PacketRef nothing;
    nothing.set_virtual_bytes(1);
    CHECK(nothing.virtual_bytes() == 0);
}

TEST_CASE("borrowed bytes stay in the lender's memory until they are read") {
    PacketPool pool;
    const auto lender = std::make_shared<std::vector<std::uint8_t>>(counting(50));
    PacketRef packet = pool.copy_of(std::vector<std::uint8_t>(70, 0xaa));
    packet.lend(10, *lender, lender);
    CHECK(lender.use_count() == 2);
    SUBCASE("by their parts") {
        const PacketRef share = packet.slice(5, 60);
        const auto [head, lent, tail] = share.parts();
        CHECK(head.size() == 5);
        CHECK(lent.data() == lender->data());
        CHECK(lent.size() == 50);
        CHECK(tail.size() == 5);
        CHECK(lender.use_count() == 2);
    }
    SUBCASE("at the bytes") {
        (*lender)[0] = 77;
        CHECK(packet.bytes()[9] == 0xaa);
        CHECK(packet.bytes()[10] == 77);
        CHECK(packet.bytes()[59] == 49);
        CHECK(packet.bytes()[60] == 0xaa);
        CHECK(lender.use_count() == 1);
        (*lender)[0] = 78;
        CHECK(packet.parts()[0].size() == 70);
        CHECK(packet.bytes()[10] == 77);
    }
    SUBCASE("at a slice that cuts through them") {
        const PacketRef cut = packet.slice(20, 50);
        CHECK(cut.parts()[0].size() == 50);
        CHECK(cut.bytes()[0] == 10);
        CHECK(lender.use_count() == 1);
    }
    SUBCASE("when a MAC is written beside them") {
        const std::vector<std::uint8_t> mac{1, 2, 3};
        packet.put_mac(60, mac);
        CHECK(lender.use_count() == 2);
        CHECK(packet.parts()[2][0] == 1);
        packet.put_mac(7, mac);
        CHECK(lender.use_count() == 2);
        packet.put_mac(8, mac);
        CHECK(lender.use_count() == 1);
        CHECK(packet.bytes()[10] == 3);
    }
    SUBCASE("without a keeper") {
        const auto unused = std::make_shared<int>(0);
        PacketRef other = pool.allocate(70);
        other.lend(10, {}, unused);
        CHECK(unused.use_count() == 1);
    }
    SUBCASE("or the last slice is released") {
        packet = PacketRef();
        CHECK(lender.use_count() == 1);
        packet = pool.allocate(70);
        CHECK(packet.parts()[0].size() == 70);
    }
}
