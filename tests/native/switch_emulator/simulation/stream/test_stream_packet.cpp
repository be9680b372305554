#include <doctest/doctest.h>

#include "switch_emulator/simulation/stream/stream_packet.hpp"

using namespace innet;
using namespace innet::simulation::stream;

TEST_CASE("a data segment costs its payload and the difference of TCP's and UDP's headers") {
    PacketPool pool;
    const PacketRef packet = encode(DataSegment{7, 0xfffffff0U, 8960}, pool);
    CHECK(packet.size() == 12);
    CHECK(packet.virtual_bytes() == 8960);
    REQUIRE(is_stream_packet(packet));
    const auto segment = parse_data(packet);
    REQUIRE(segment);
    CHECK(segment->stream == 7);
    CHECK(segment->sequence == 0xfffffff0U);
    CHECK(segment->size == 8960);
    CHECK_FALSE(parse_acknowledgement(packet));
}

TEST_CASE("an acknowledgement has a block only if there is something beyond a gap") {
    PacketPool pool;
    CHECK(encode(Acknowledgement{3, 100, 0, 0}, pool).size() == 12);
    const PacketRef packet = encode(Acknowledgement{3, 100, 200, 300}, pool);
    CHECK(packet.size() == 24);
    const auto read = parse_acknowledgement(packet);
    REQUIRE(read);
    CHECK(read->stream == 3);
    CHECK(read->next == 100);
    CHECK(read->sack_begin == 200);
    CHECK(read->sack_end == 300);
    CHECK_FALSE(parse_data(packet));
}

TEST_CASE("one flipped bit is detected") {
    PacketPool pool;
    for (std::size_t bit = 0; bit < 8 * 24; ++bit) {
        PacketRef packet = encode(Acknowledgement{3, 100, 200, 300}, pool);
        packet.writable()[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
        const bool taken =
            is_stream_packet(packet) && (parse_data(packet) || parse_acknowledgement(packet));
        CHECK_FALSE(taken);
    }
}

TEST_CASE("offsets beyond 32 bits are inferred from their neighbours") {
    const std::uint64_t high = 5ULL << 32U;
    CHECK(unwrap(10, high - 10) == high + 10);
    CHECK(unwrap(0xfffffff0U, high + 10) == high - 16);
    CHECK(unwrap(0, 0) == 0);
}
