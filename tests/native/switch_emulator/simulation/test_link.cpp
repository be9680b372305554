#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "switch_emulator/simulation/link.hpp"
#include "tests/native/support/elements.hpp"

using namespace innet;
using namespace innet::simulation;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint kStart{100s};
constexpr std::size_t kPayloadBytes = 200;

struct Arrival {
    std::size_t packet;
    TimePoint at;

    bool operator==(const Arrival&) const = default;
};

/// Sends numbered packets over a link and notes which arrive, and when.
class Bench {
  public:
    explicit Bench(const LinkOptions& options) : link_(options, pool_) {}

    Link& link() { return link_; }
    LinkCounters counters() const { return link_.counters(); }
    PacketPool& pool() { return pool_; }

    static OutgoingPacket with_header(PacketRef payload) {
        OutgoingPacket packet;
        const test::Bytes token = test::from_hex("01020304");
        wire::LpFields fields;
        fields.pit_token = token;
        packet.header_size = static_cast<std::uint8_t>(
            wire::encode_lp_header(fields, payload.size(), packet.header));
        packet.payload = std::move(payload);
        return packet;
    }

    /// A packet that begins with its number.
    PacketRef numbered(std::size_t number) {
        test::Bytes bytes(kPayloadBytes, 0x5a);
        for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<std::uint8_t>(number >> (8 * i));
        return pool_.copy_of(bytes);
    }

    void send(std::size_t number, TimePoint now) {
        link_.enqueue(with_header(numbered(number)), now);
    }

    std::vector<OutgoingPacket> take(TimePoint now) {
        std::vector<OutgoingPacket> arrived;
        link_.take_arrived(now, arrived);
        return arrived;
    }

    /// Wakes at each deadline up to `until`, as a simulator does.
    std::vector<Arrival> run(TimePoint until = kNever - 1ns) {
        std::vector<Arrival> arrivals;
        while (link_.next_deadline() <= until) {
            const TimePoint now = link_.next_deadline();
            for (const OutgoingPacket& packet : take(now))
                arrivals.push_back({number(packet), now});
        }
        return arrivals;
    }

    static std::size_t number(const OutgoingPacket& packet) {
        const auto bytes = packet.payload.bytes();
        std::size_t number = 0;
        for (std::size_t i = 0; i < 4; ++i) number |= std::size_t{bytes[i]} << (8 * i);
        return number;
    }

    void check_conservation() const {
        const LinkCounters c = counters();
        CHECK(c.entered + c.duplicated ==
              c.delivered + c.port.dropped_queue + c.port.dropped_loss + c.dropped_down + c.inside);
    }

  private:
    PacketPool pool_;
    Link link_;
};

/// One packet each microsecond, on its way for 1 ms.
std::vector<Arrival> arrivals_of(const LinkOptions& options, std::size_t packets) {
    Bench bench(options);
    for (std::size_t i = 0; i < packets; ++i) bench.send(i, kStart + i * 1us);
    return bench.run();
}

LinkOptions with_delay() {
    LinkOptions options;
    options.port.delay = 1ms;
    return options;
}

LinkOptions with_everything(std::uint64_t seed) {
    LinkOptions options = with_delay();
    options.port.rate_bps = 2e9;
    options.port.queue_bytes = 20'000;
    options.port.loss = 0.05;
    options.port.seed = seed;
    options.jitter = 300us;
    options.reorder = 0.1;
    options.reorder_delay = 2ms;
    options.duplicate = 0.1;
    options.corrupt = 0.1;
    return options;
}

std::vector<std::size_t> numbers(const std::vector<Arrival>& arrivals) {
    std::vector<std::size_t> result;
    for (const Arrival& arrival : arrivals) result.push_back(arrival.packet);
    return result;
}

/// Five standard deviations of a binomial distribution around its mean.
bool is_plausible(std::uint64_t happened, std::uint64_t tries, double probability) {
    const double mean = static_cast<double>(tries) * probability;
    return std::abs(static_cast<double>(happened) - mean) < 5 * std::sqrt(mean * (1 - probability));
}

}  // namespace

TEST_CASE("a link without impairments is its port") {
    const auto arrivals = arrivals_of(with_delay(), 1000);
    REQUIRE(arrivals.size() == 1000);
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
        CHECK(arrivals[i] == Arrival{i, kStart + 1ms + i * 1us});
    }
}

TEST_CASE("jitter delays up to its bound and keeps the order") {
    LinkOptions options = with_delay();
    options.jitter = 50us;
    const auto arrivals = arrivals_of(options, 5000);
    REQUIRE(arrivals.size() == 5000);
    Duration longest{0};
    Duration shortest = 1s;
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
        REQUIRE(arrivals[i].packet == i);
        const Duration extra = arrivals[i].at - (kStart + 1ms + i * 1us);
        longest = std::max(longest, extra);
        shortest = std::min(shortest, extra);
    }
    CHECK(shortest >= 0us);
    CHECK(longest > 45us);
    CHECK(longest <= 50us);
}

TEST_CASE("a delayed packet is overtaken by later ones") {
    LinkOptions options = with_delay();
    options.reorder = 0.02;
    options.reorder_delay = 10us;
    Bench bench(options);
    for (std::size_t i = 0; i < 10'000; ++i) bench.send(i, kStart + i * 1us);
    const auto arrivals = bench.run();
    REQUIRE(arrivals.size() == 10'000);
    std::uint64_t late = 0;
    for (const Arrival& arrival : arrivals) {
        const Duration extra = arrival.at - (kStart + 1ms + arrival.packet * 1us);
        CHECK((extra == 0us || extra == 10us));
        late += extra == 10us ? 1 : 0;
    }
    CHECK(bench.counters().reordered == late);
    CHECK(is_plausible(late, 10'000, 0.02));
    CHECK(!std::ranges::is_sorted(numbers(arrivals)));
}

TEST_CASE("a duplicate arrives beside its original and shares its memory") {
    LinkOptions options = with_delay();
    options.duplicate = 1.0;
    Bench bench(options);
    bench.send(7, kStart);
    const auto arrived = bench.take(kStart + 1ms);
    REQUIRE(arrived.size() == 2);
    CHECK(arrived[0].payload.bytes().data() == arrived[1].payload.bytes().data());
    CHECK(std::ranges::equal(arrived[0].header_bytes(), arrived[1].header_bytes()));
    CHECK(bench.counters().duplicated == 1);
}

TEST_CASE("corruption flips one to three bits of a copy, the header's among them") {
    LinkOptions options;
    options.corrupt = 1.0;
    Bench bench(options);
    std::set<int> flips_seen;
    std::uint64_t in_header = 0;
    std::uint64_t in_payload = 0;
    for (std::size_t i = 0; i < 2000; ++i) {
        const PacketRef shared = bench.numbered(i);
        const test::Bytes before(shared.bytes().begin(), shared.bytes().end());
        const OutgoingPacket sent = Bench::with_header(shared);
        test::Bytes whole(sent.header_bytes().begin(), sent.header_bytes().end());
        whole.insert(whole.end(), before.begin(), before.end());
        bench.link().enqueue(OutgoingPacket(sent), kStart);
        const auto arrived = bench.take(kStart);
        REQUIRE(arrived.size() == 1);
        REQUIRE(arrived[0].size() == whole.size());
        const auto bytes = arrived[0].payload.bytes();
        int flips = 0;
        for (std::size_t at = 0; at < whole.size(); ++at) {
            const int here = std::popcount(static_cast<unsigned>(bytes[at] ^ whole[at]));
            flips += here;
            (at < sent.header_size ? in_header : in_payload) += static_cast<unsigned>(here);
        }
        flips_seen.insert(flips);
        REQUIRE(std::ranges::equal(shared.bytes(), before));
    }
    CHECK(flips_seen == std::set<int>{1, 2, 3});
    CHECK(in_header > 0);
    CHECK(in_payload > in_header);
    CHECK(bench.counters().corrupted == 2000);
}

TEST_CASE("a packet's transmission time follows the bytes it represents, corrupted or not") {
    for (const double corrupt : {0.0, 1.0}) {
        LinkOptions options;
        options.port.rate_bps = 8e6;  // 1 byte takes 1 us
        options.corrupt = corrupt;
        Bench bench(options);
        OutgoingPacket packet;
        packet.payload = bench.numbered(0);
        packet.payload.set_virtual_bytes(10'000);
        const auto wire_bytes =
            static_cast<std::int64_t>(kPayloadBytes + 10'000 + port::kFramingBytes);
        bench.link().enqueue(std::move(packet), kStart);
        REQUIRE(bench.link().next_deadline() == kStart + wire_bytes * 1us);
        const auto arrived = bench.take(kStart + wire_bytes * 1us);
        REQUIRE(arrived.size() == 1);
        CHECK(arrived[0].payload.virtual_bytes() == 10'000);
        CHECK(bench.counters().port.depth_bytes == 0);
    }
}

TEST_CASE("a probability of corruption spares the other packets") {
    LinkOptions options;
    options.corrupt = 0.1;
    Bench bench(options);
    for (std::size_t i = 0; i < 10'000; ++i) bench.send(i, kStart);
    std::uint64_t intact = 0;
    for (const OutgoingPacket& packet : bench.take(kStart)) {
        intact += packet.header_size > 0 ? 1 : 0;
    }
    CHECK(intact + bench.counters().corrupted == 10'000);
    CHECK(is_plausible(bench.counters().corrupted, 10'000, 0.1));
}

TEST_CASE("a packet of one byte and an empty one survive corruption") {
    LinkOptions options;
    options.corrupt = 1.0;
    Bench bench(options);
    for (const std::size_t size : {1U, 0U}) {
        OutgoingPacket packet;
        packet.payload = bench.pool().copy_of(test::Bytes(size, 0));
        bench.link().enqueue(std::move(packet), kStart);
        CHECK(bench.take(kStart).size() == 1);
    }
    CHECK(bench.counters().corrupted == 1);
}

TEST_CASE("a link that goes down loses packets in flight and all until it is up again") {
    for (const Duration jitter : {0us, 1us}) {
        CAPTURE(jitter.count());
        LinkOptions options = with_delay();
        options.jitter = jitter;
        Bench bench(options);
        for (std::size_t i = 0; i < 10; ++i) bench.send(i, kStart + i * 100us);
        bench.link().set_up(false, kStart + 1350us);  // four have arrived, nobody has taken them
        bench.send(10, kStart + 1400us);
        CHECK(bench.take(kStart + 1s).size() == 4);
        CHECK(bench.link().next_deadline() == kNever);
        CHECK(bench.counters().dropped_down == 7);
        bench.link().set_up(true, kStart + 2s);
        bench.send(11, kStart + 2s);
        CHECK(numbers(bench.run()) == std::vector<std::size_t>{11});
        bench.check_conservation();
    }
}

TEST_CASE("a link that comes up again starts with an empty queue") {
    LinkOptions options;
    options.port.rate_bps = 8e6;  // 1 byte takes 1 us
    options.port.queue_bytes = 1000;
    Bench bench(options);
    for (std::size_t i = 0; i < 10; ++i) bench.send(i, kStart);
    CHECK(bench.counters().port.dropped_queue > 0);
    bench.link().set_up(false, kStart);
    bench.link().set_up(true, kStart);
    CHECK(bench.counters().port.depth_bytes == 0);
    bench.send(10, kStart);
    const auto wire_bytes = static_cast<std::int64_t>(bench.counters().port.depth_bytes);
    CHECK(bench.run() == std::vector<Arrival>{{10, kStart + wire_bytes * 1us}});
}

TEST_CASE("a change applies to later packets, which do not overtake those on the wire") {
    Bench bench(with_delay());
    bench.send(0, kStart);
    LinkOptions faster;
    faster.port.delay = 100us;
    bench.link().change(faster, kStart + 10us);
    bench.send(1, kStart + 10us);
    bench.send(2, kStart + 5ms);
    CHECK(bench.run() ==
          std::vector<Arrival>{{0, kStart + 1ms}, {1, kStart + 1ms}, {2, kStart + 5100us}});
}

TEST_CASE("new impairments do not affect packets that already arrived") {
    Bench bench(with_delay());
    bench.send(0, kStart);
    bench.send(1, kStart + 1us);
    LinkOptions options = with_delay();
    options.reorder = 1.0;
    options.reorder_delay = 1s;
    bench.link().change(options, kStart + 1ms);
    CHECK(bench.run() == std::vector<Arrival>{{0, kStart + 1ms}, {1, kStart + 1s + 1001us}});
}

TEST_CASE("removed impairments leave no packet behind") {
    LinkOptions options = with_delay();
    options.jitter = 2ms;
    Bench bench(options);
    for (std::size_t i = 0; i < 10; ++i) bench.send(i, kStart);
    CHECK(bench.run(kStart + 1ms).size() < 10);
    bench.link().change(with_delay(), kStart + 1ms);
    bench.send(10, kStart + 10ms);
    const auto rest = bench.run();
    CHECK(rest.back() == Arrival{10, kStart + 11ms});
    CHECK(bench.counters().delivered == 11);
    CHECK(bench.counters().inside == 0);
}

TEST_CASE("the same seed gives the same arrivals, whenever the driver wakes") {
    const auto first = arrivals_of(with_everything(1), 5000);
    CHECK(arrivals_of(with_everything(1), 5000) == first);
    CHECK(arrivals_of(with_everything(2), 5000) != first);
    LinkOptions jitter_alone = with_delay();
    jitter_alone.jitter = 1ms;
    const auto jittered = arrivals_of(jitter_alone, 100);
    jitter_alone.port.seed = 2;
    CHECK(arrivals_of(jitter_alone, 100) != jittered);

    Bench late(with_everything(1));
    for (std::size_t i = 0; i < 5000; ++i) late.send(i, kStart + i * 1us);
    std::vector<std::size_t> order;
    for (const OutgoingPacket& packet : late.take(kStart + 1s))
        order.push_back(Bench::number(packet));
    CHECK(order == numbers(first));
}

TEST_CASE("impairments do not change which packets the port loses") {
    LinkOptions options = with_delay();
    options.port.loss = 0.1;
    const auto lossy = numbers(arrivals_of(options, 2000));
    options.jitter = 1us;
    CHECK(numbers(arrivals_of(options, 2000)) == lossy);
}

TEST_CASE("every packet is delivered, dropped for a reason or inside, at any time") {
    Bench bench(with_everything(3));
    port::RandomBits random(4);
    TimePoint now = kStart;
    std::uint64_t taken = 0;
    for (std::size_t i = 0; i < 20'000; ++i) {
        now += Duration(random.below(1500));
        bench.send(i, now);
        if (i % 7 == 0) taken += bench.take(now).size();
        if (i % 5000 == 4500) bench.link().set_up(false, now);
        if (i % 5000 == 4600) bench.link().set_up(true, now);
        if (i % 3000 == 0) {
            bench.link().change(i % 6000 == 0 ? with_everything(3) : with_delay(), now);
        }
        bench.check_conservation();
        CHECK(bench.counters().delivered == taken);
    }
    const LinkCounters last = bench.counters();
    CHECK(last.duplicated > 0);
    CHECK(last.corrupted > 0);
    CHECK(last.reordered > 0);
    CHECK(last.dropped_down > 0);
    CHECK(last.port.dropped_queue > 0);
    CHECK(last.port.dropped_loss > 0);
    CHECK(last.inside > 0);
    bench.run();
    CHECK(bench.counters().inside == 0);
    bench.check_conservation();
    CHECK(bench.pool().bytes_in_use() == 0);
}
