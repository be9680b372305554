#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "switch_emulator/port/congestion_marker.hpp"
#include "transport/wire/lp.hpp"

using namespace innet;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kMost = 8800;
constexpr std::size_t kLow = 64 * 1024;
constexpr std::size_t kHigh = kLow + 1;

struct Queue {
    OutgoingPacket packet(std::uint8_t type, std::size_t size = 100) {
        OutgoingPacket made;
        made.payload = pool.allocate(size);
        made.payload.writable()[0] = type;
        return made;
    }
    /// Whether a packet that enters now is marked.
    bool marks(std::size_t queued, std::uint8_t type = wire::kData, std::size_t size = 100) {
        OutgoingPacket entering = packet(type, size);
        marker.on_enqueue(entering, queued, kMost, now);
        return entering.header_size > 0;
    }

    PacketPool pool;
    port::CongestionMarker marker;
    TimePoint now{1s};
};

}  // namespace

TEST_CASE("Data are marked once a queue has been above its threshold for the base interval") {
    Queue queue;
    CHECK_FALSE(queue.marks(kHigh));
    queue.now += 99ms;
    CHECK_FALSE(queue.marks(kHigh));
    queue.now += 1ms;
    CHECK(queue.marks(kHigh));
    CHECK_FALSE(queue.marks(kHigh));
    CHECK(queue.marker.marked() == 1);
}

TEST_CASE("marks become more frequent while a queue stays, and start again when it was short") {
    Queue queue;
    queue.marks(kHigh);
    std::vector<Duration> intervals;
    for (TimePoint last = queue.now; intervals.size() < 5; queue.now += 10us) {
        if (!queue.marks(kHigh)) continue;
        intervals.push_back(queue.now - last);
        last = queue.now;
    }
    const double expected_ms[] = {100.0, 70.71, 57.74, 50.0, 44.72};  // 100 / sqrt(n)
    for (std::size_t i = 0; i < intervals.size(); ++i) {
        CHECK(std::chrono::duration<double, std::milli>(intervals[i]).count() ==
              doctest::Approx(expected_ms[i]).epsilon(0.001));
    }
    queue.now += 1s;
    CHECK_FALSE(queue.marks(kLow));
    queue.now += 1s;
    CHECK_FALSE(queue.marks(kHigh));
    queue.now += 100ms;
    CHECK(queue.marks(kHigh));
}

TEST_CASE("a queue that grows far beyond a burst is marked at once, and then by the intervals") {
    Queue queue;
    CHECK_FALSE(queue.marks(16 * kLow));
    CHECK(queue.marks(17 * kLow));
    CHECK_FALSE(queue.marks(17 * kLow));
    queue.now += 71ms;
    CHECK(queue.marks(kHigh));
}

TEST_CASE("no Interest is marked, and no Data that would be too large with a mark") {
    Queue queue;
    queue.marks(kHigh);
    queue.now += 200ms;
    CHECK_FALSE(queue.marks(kHigh, wire::kInterest));
    CHECK_FALSE(queue.marks(kHigh, wire::kData, kMost));
    CHECK(queue.marks(kHigh));
}

TEST_CASE("congestion marking of a face can be disabled") {
    Queue queue;
    queue.marker.change({.enabled = false});
    queue.marks(kHigh);
    queue.now += 1s;
    CHECK_FALSE(queue.marks(kHigh));
}

TEST_CASE("a mark appears once and leaves the other link fields") {
    Queue queue;
    OutgoingPacket packet = queue.packet(wire::kData);
    wire::LpFields fields;
    const std::vector<std::uint8_t> token{1, 2, 3};
    fields.pit_token = token;
    packet.header_size = static_cast<std::uint8_t>(
        wire::encode_lp_header(fields, packet.payload.size(), packet.header));
    CHECK(port::mark_data(packet));
    const auto marked = wire::LpView::parse_header(packet.header_bytes());
    REQUIRE(marked);
    CHECK(marked->congestion_mark() == 1);
    CHECK(std::ranges::equal(marked->pit_token(), token));
    CHECK_FALSE(port::mark_data(packet));
}
