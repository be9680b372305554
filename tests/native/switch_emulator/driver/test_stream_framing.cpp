#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "switch_emulator/driver/stream_framing.hpp"

using namespace innet;
using namespace innet::driver;

namespace {

constexpr std::size_t kMost = 8800;

std::vector<std::uint8_t> element(std::size_t value_size) {
    std::vector<std::uint8_t> bytes(value_size + 16);
    wire::Writer writer(bytes);
    writer.element(wire::kData, std::vector<std::uint8_t>(value_size, 7));
    bytes.resize(writer.size());
    return bytes;
}

}  // namespace

TEST_CASE("a packet is complete when its last byte is there, and not before") {
    for (const std::size_t size : {0U, 1U, 252U, 253U, 8000U}) {
        std::vector<std::uint8_t> bytes = element(size);
        const std::size_t whole = bytes.size();
        bytes.push_back(wire::kInterest);  // of the next packet
        for (std::size_t have = 0; have <= bytes.size(); have += have < 8 ? 1 : whole / 7 + 1) {
            const Frame frame = front_frame(wire::ByteView(bytes).first(have), kMost);
            CHECK(frame.state == (have < whole ? FrameState::kIncomplete : FrameState::kComplete));
            if (frame.state == FrameState::kComplete) CHECK(frame.size == whole);
        }
    }
}

TEST_CASE("only Interests, Data and LpPackets are accepted") {
    for (int first = 0; first < 256; ++first) {
        const bool is_packet = first == 0x05 || first == 0x06 || first == 0x64;
        const std::vector<std::uint8_t> stream{static_cast<std::uint8_t>(first)};
        CHECK((front_frame(stream, kMost).state == FrameState::kForeign) != is_packet);
    }
    const std::string request = "POST / HTTP/1.1";
    CHECK(
        front_frame({reinterpret_cast<const std::uint8_t*>(request.data()), request.size()}, kMost)
            .state == FrameState::kForeign);
}

TEST_CASE("bytes that cannot start a packet are an error at once") {
    const std::vector<std::vector<std::uint8_t>> streams = {
        {6, 253, 0, 1, 9},                             // a length longer than needed
        {6, 254, 0xff, 0xff, 0xff, 0xff},              // 4 GiB
        {6, 255, 0xff, 0xff, 0xff, 0xff, 1, 1, 1, 1},  // more
    };
    for (const auto& stream : streams) CHECK(front_frame(stream, kMost).state == FrameState::kBad);
    CHECK(front_frame(element(kMost), kMost).state == FrameState::kBad);
}
