#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "switch_emulator/port/port_model.hpp"
#include "tests/native/support/elements.hpp"

using namespace innet;
using namespace innet::port;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint kStart{100s};

/// Packets whose size on the wire, framing included, is chosen; feeds a port and collects.
class Bench {
  public:
    explicit Bench(const PortOptions& options) : port_(options) {}

    PortModel& port() { return port_; }
    const PortCounters& counters() const { return port_.counters(); }

    void enqueue(std::size_t wire_bytes, TimePoint now) {
        const std::size_t payload_size = wire_bytes - kFramingBytes;
        test::Bytes payload(payload_size, 0);
        payload[0] = wire::kInterest;
        send(payload, {}, now);
    }

    void send(const test::Bytes& payload, const wire::LpFields& fields, TimePoint now) {
        OutgoingPacket packet;
        packet.payload = pool_.copy_of(payload);
        if (!fields.empty()) {
            packet.header_size = static_cast<std::uint8_t>(
                wire::encode_lp_header(fields, payload.size(), packet.header));
        }
        port_.enqueue(std::move(packet), now);
    }

    /// Packets that are out at `now`.
    std::vector<OutgoingPacket> take(TimePoint now) {
        std::vector<OutgoingPacket> ready;
        port_.take_ready(now, ready);
        return ready;
    }

    /// Wakes at each deadline, as a driver that is never late; when each packet came out.
    std::vector<TimePoint> run() {
        std::vector<TimePoint> arrivals;
        while (port_.next_deadline() != kNever) {
            const TimePoint now = port_.next_deadline();
            for (std::size_t out = take(now).size(); out > 0; --out) arrivals.push_back(now);
        }
        return arrivals;
    }

    std::uint64_t on_the_link() const {
        const PortCounters& c = counters();
        return c.enqueued - c.sent - c.dropped_queue - c.dropped_loss;
    }

  private:
    PacketPool pool_;
    PortModel port_;
};

PortOptions at_rate(double rate_bps) {
    PortOptions options;
    options.rate_bps = rate_bps;
    return options;
}

}  // namespace

TEST_CASE("without rate, delay and loss a port passes everything through at once") {
    Bench bench(PortOptions{});
    for (int i = 0; i < 1000; ++i) bench.enqueue(8000, kStart);  // far beyond the queue's bytes
    CHECK(bench.port().next_deadline() == kStart);
    CHECK(bench.take(kStart).size() == 1000);
    CHECK(bench.port().next_deadline() == kNever);
    CHECK(bench.counters().dropped_queue == 0);
    CHECK(bench.counters().bytes == 8000 * 1000);
}

TEST_CASE("packets arrive when their last bit has crossed the link") {
    PortOptions options = at_rate(1e6);  // 1 byte takes 8 us
    options.delay = 5ms;
    Bench bench(options);
    bench.enqueue(1000, kStart);
    bench.enqueue(500, kStart);
    bench.enqueue(100, kStart + 1ms);
    bench.enqueue(250, kStart + 100ms);  // the link was idle meanwhile
    CHECK(bench.run() ==
          std::vector<TimePoint>{kStart + 13ms, kStart + 17ms, kStart + 17800us, kStart + 107ms});
}

TEST_CASE("delay alone shifts every packet and limits nothing") {
    PortOptions options;
    options.delay = 10ms;
    Bench bench(options);
    for (int i = 0; i < 200; ++i) bench.enqueue(8000, kStart + i * 1us);
    CHECK(bench.take(kStart + 10ms - 1ns).empty());
    CHECK(bench.take(kStart + 10ms + 99us).size() == 100);
    CHECK(bench.port().next_deadline() == kStart + 10ms + 100us);
    CHECK(bench.take(kStart + 1s).size() == 100);
}

TEST_CASE(
    "a driver that wakes late gets all that is due, in order, and the link loses no capacity") {
    Bench bench(at_rate(1e6));
    for (std::size_t size = 100; size < 110; ++size) bench.enqueue(size, kStart);
    const auto due = bench.take(kStart + 5ms);  // 100 + … + 105 bytes take 4.92 ms
    REQUIRE(due.size() == 6);
    for (std::size_t i = 0; i < due.size(); ++i) CHECK(due[i].size() + kFramingBytes == 100 + i);
    // The seventh has been on the wire since 4.92 ms, not since the driver woke up.
    CHECK(bench.port().next_deadline() == kStart + 4920us + 848us);
}

TEST_CASE("a token bucket passes one burst at once after an idle time") {
    PortOptions options;
    options.rate_bps = 8e6;  // a byte takes a microsecond
    options.burst_bytes = 1500;
    Bench bench(options);
    for (int i = 0; i < 3; ++i) bench.enqueue(1000, kStart);
    CHECK(bench.run() == std::vector<TimePoint>{kStart, kStart + 500us, kStart + 1500us});
    // Half a millisecond later, so much is saved up, and no more than the burst ever.
    bench.enqueue(1000, kStart + 2000us);
    CHECK(bench.run() == std::vector<TimePoint>{kStart + 2500us});
    for (int i = 0; i < 2; ++i) bench.enqueue(1000, kStart + 1s);
    CHECK(bench.run() == std::vector<TimePoint>{kStart + 1s, kStart + 1s + 500us});
}

TEST_CASE("rounding does not reduce the rate") {
    PortOptions options = at_rate(10e9);  // 67 bytes take 53.6 ns
    Bench bench(options);
    for (int i = 0; i < 5000; ++i) bench.enqueue(67, kStart);
    const auto arrivals = bench.run();
    REQUIRE(arrivals.size() == 5000);
    CHECK(std::abs((arrivals.back() - kStart - 268us).count()) <= 1);
}

TEST_CASE("a full queue drops the newest packet, and accepts packets again once drained") {
    PortOptions options = at_rate(8e6);  // 1 byte takes 1 us
    options.queue_bytes = 3000;
    Bench bench(options);
    for (int i = 0; i < 5; ++i) bench.enqueue(1000, kStart);
    CHECK(bench.counters().dropped_queue == 2);
    CHECK(bench.counters().depth_bytes == 3000);
    bench.enqueue(1000, kStart + 999us);
    CHECK(bench.counters().dropped_queue == 3);
    bench.enqueue(1000, kStart + 1000us);
    CHECK(bench.counters().dropped_queue == 3);
    CHECK(bench.counters().max_depth_bytes == 3000);
    CHECK(bench.run().size() == 4);
    CHECK(bench.counters().depth_bytes == 0);
}

TEST_CASE("a packet larger than the queue still crosses an idle link") {
    PortOptions options = at_rate(8e6);
    options.queue_bytes = 100;
    Bench bench(options);
    bench.enqueue(9000, kStart);
    bench.enqueue(60, kStart);
    CHECK(bench.counters().dropped_queue == 1);
    CHECK(bench.run() == std::vector<TimePoint>{kStart + 9ms});
}

TEST_CASE("losses follow the probability and the seed") {
    PortOptions options;
    options.loss = 0.05;
    const auto survivors = [&](std::uint64_t seed) {
        options.seed = seed;
        Bench bench(options);
        std::vector<std::size_t> survived;
        for (std::size_t i = 0; i < 20'000; ++i) {
            bench.enqueue(100 + i % 1000, kStart);
            if (!bench.take(kStart).empty()) survived.push_back(i);
        }
        CHECK(bench.counters().dropped_loss == 20'000 - survived.size());
        return survived;
    };
    const auto first = survivors(1);
    CHECK(survivors(1) == first);
    CHECK(survivors(2) != first);
    // Binomial: 1000 lost are expected, with a standard deviation of 30.8. Five deviations.
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        CAPTURE(seed);
        const double lost = 20'000.0 - static_cast<double>(survivors(seed).size());
        CHECK(std::abs(lost - 1000) < 5 * 30.8);
    }
}

TEST_CASE("the probabilities 0 and 1 lose nothing and everything") {
    PortOptions options;
    options.loss = 1.0;
    Bench all(options);
    for (int i = 0; i < 100; ++i) all.enqueue(100, kStart);
    CHECK(all.take(kStart).empty());
    CHECK(all.counters().dropped_loss == 100);
}

TEST_CASE("every packet is sent, dropped or on the link, at any time") {
    PortOptions options = at_rate(8e6);
    options.queue_bytes = 20'000;
    options.mark_bytes = 5'000;
    options.loss = 0.1;
    options.delay = 3ms;
    Bench bench(options);
    std::uint64_t taken = 0;
    std::uint64_t offered = 0;
    TimePoint now = kStart;
    for (std::uint64_t i = 0; i < 5000; ++i) {
        now += Duration((i * 7919) % 900'000);
        test::Bytes data = test::tlv(wire::kData, {test::Bytes(300 + i * 31 % 500)});
        bench.send(data, {}, now);
        ++offered;
        if (i % 3 == 0) taken += bench.take(now).size();
        CHECK(bench.counters().sent == taken);
        CHECK(bench.counters().enqueued == offered);
        CHECK(bench.counters().depth_bytes <= options.queue_bytes + 100);
    }
    CHECK(bench.counters().dropped_queue > 0);
    CHECK(bench.counters().marked > 0);
    CHECK(bench.on_the_link() > 0);
    bench.run();
    CHECK(bench.on_the_link() == 0);
    CHECK(bench.counters().depth_bytes == 0);
}

TEST_CASE("Data that enters a deep queue is marked and still parses") {
    PortOptions options = at_rate(8e6);
    options.mark_bytes = 1000;
    Bench bench(options);
    const test::Bytes data = test::tlv(wire::kData, {test::Bytes(700)});
    const test::Bytes token = test::from_hex("0102030405");
    wire::LpFields with_token;
    with_token.pit_token = token;
    bench.send(data, {}, kStart);          // finds nothing
    bench.send(data, {}, kStart);          // finds one: below the threshold
    bench.send(data, {}, kStart);          // finds two
    bench.send(data, with_token, kStart);  // keeps its token
    const auto ready = bench.take(kStart + 1s);
    REQUIRE(ready.size() == 4);
    CHECK(bench.counters().marked == 2);
    CHECK(bench.counters().depth_bytes == 0);
    for (std::size_t i = 0; i < ready.size(); ++i) {
        CAPTURE(i);
        const auto header = ready[i].header_bytes();
        const auto payload = ready[i].payload.bytes();
        test::Bytes packet(header.begin(), header.end());
        packet.insert(packet.end(), payload.begin(), payload.end());
        const auto link = wire::LpView::parse(packet);
        REQUIRE(link);
        CHECK(link->payload().size() == data.size());
        CHECK(link->congestion_mark() == (i >= 2 ? 1 : 0));
        CHECK(std::ranges::equal(link->pit_token(), i == 3 ? token : test::Bytes{}));
    }
}

TEST_CASE("Interests, and Data that is marked already, keep their headers") {
    PortOptions options = at_rate(8e6);
    options.mark_bytes = 0;
    Bench bench(options);
    wire::LpFields marked;
    marked.congestion_mark = 7;
    bench.enqueue(100, kStart);
    bench.enqueue(100, kStart);
    bench.send(test::tlv(wire::kData, {test::Bytes(100)}), marked, kStart);
    const auto ready = bench.take(kStart + 1s);
    REQUIRE(ready.size() == 3);
    CHECK(ready[1].header_size == 0);
    CHECK(wire::LpView::parse_header(ready[2].header_bytes())->congestion_mark() == 7);
    CHECK(bench.counters().marked == 0);
}
