#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "switch_emulator/simulation/link.hpp"
#include "switch_emulator/simulation/stream/stream_table.hpp"

using namespace innet;
using namespace innet::simulation;
using namespace innet::simulation::stream;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint kStart{100s};
constexpr std::uint32_t kSegmentBytes = 1460;

LinkOptions link_of(double rate_bps, Duration delay, double loss = 0.0,
                    std::size_t queue_bytes = 256 * 1024, std::uint64_t seed = 1) {
    LinkOptions options;
    options.port.rate_bps = rate_bps;
    options.port.delay = delay;
    options.port.loss = loss;
    options.port.queue_bytes = queue_bytes;
    options.port.seed = seed;
    return options;
}

/// Links that streams cross, and their time.
class Bench final : public Wire {
  public:
    LinkIndex add(const LinkOptions& options) {
        links_.push_back(std::make_unique<Link>(options, pool_));
        return static_cast<LinkIndex>(links_.size() - 1);
    }
    StreamTable& table() { return table_; }
    Link& link(LinkIndex index) { return *links_[index]; }
    TimePoint now() const { return now_; }
    double seconds() const { return std::chrono::duration<double>(now_ - kStart).count(); }

    void put(LinkIndex link, PacketRef packet) override {
        OutgoingPacket outgoing;
        outgoing.payload = std::move(packet);
        links_[link]->enqueue(std::move(outgoing), now_);
    }
    Duration time_to_room(LinkIndex link) override {
        return links_[link]->time_to_half_queue(now_);
    }

    /// Until `count` watched ends have arrived, or `limit` is over.
    std::size_t run(std::size_t count, Duration limit = 1h) {
        std::size_t seen = 0;
        const TimePoint end = now_ + limit;
        while (seen < count && step(end)) {
            seen += table_.take_arrived().size();
        }
        return seen;
    }

  private:
    bool step(TimePoint end) {
        TimePoint next = table_.next_deadline();
        for (const auto& link : links_) {
            next = std::min(next, link->next_deadline());
        }
        if (next > end) {
            now_ = end;
            return false;
        }
        now_ = std::max(now_, next);
        for (LinkIndex index = 0; index < links_.size(); ++index) {
            std::vector<OutgoingPacket> arrived;
            links_[index]->take_arrived(now_, arrived);
            for (const OutgoingPacket& packet : arrived) {
                table_.on_packet(index, packet.payload, now_);
            }
        }
        table_.on_timer(now_);
        return true;
    }

    PacketPool pool_;
    std::vector<std::unique_ptr<Link>> links_;
    StreamTable table_{*this, pool_};
    TimePoint now_ = kStart;
};

SenderOptions options(WindowGrowth growth = WindowGrowth::kCubic) {
    SenderOptions result;
    result.segment_bytes = kSegmentBytes;
    result.growth = growth;
    return result;
}

/// What a link of `rate_bps` carries of a stream at most.
double goodput_bps(double rate_bps) { return rate_bps * kSegmentBytes / (kSegmentBytes + 54.0); }

}  // namespace

TEST_CASE("one stream fills a link") {
    for (const WindowGrowth growth : {WindowGrowth::kReno, WindowGrowth::kCubic}) {
        Bench bench;
        const LinkIndex forth = bench.add(link_of(1e8, 1ms));
        const LinkIndex back = bench.add(link_of(1e8, 1ms));
        const StreamId stream = bench.table().add(options(growth), {{forth}, {back}});
        constexpr std::uint64_t kBytes = 50'000'000;
        bench.table().watch(stream, kBytes, 1);
        bench.table().write(stream, kBytes, bench.now());
        CHECK(bench.run(1) == 1);
        const double ideal_s = kBytes * 8 / goodput_bps(1e8);
        CHECK(bench.seconds() > ideal_s);
        CHECK(bench.seconds() < ideal_s / 0.95);
        CHECK(bench.table().sender(stream).counters().retransmissions == 0);
    }
}

TEST_CASE("two streams share a bottleneck") {
    Bench bench;
    const LinkIndex first = bench.add(link_of(1e9, 500us));
    const LinkIndex second = bench.add(link_of(1e9, 500us));
    const LinkIndex shared = bench.add(link_of(1e8, 1ms));
    const LinkIndex back = bench.add(link_of(1e9, 1500us));
    const StreamId one = bench.table().add(options(), {{first, shared}, {back}});
    const StreamId two = bench.table().add(options(), {{second, shared}, {back}});
    bench.table().write(one, 1ULL << 40U, bench.now());
    bench.table().write(two, 1ULL << 40U, bench.now());
    bench.run(1, 20s);
    const auto arrived = [&](StreamId stream) {
        return static_cast<double>(bench.table().receiver(stream).arrived());
    };
    CHECK((arrived(one) + arrived(two)) * 8 / 20 > 0.93 * goodput_bps(1e8));
    CHECK(arrived(one) / arrived(two) > 0.6);
    CHECK(arrived(one) / arrived(two) < 1.0 / 0.6);
    CHECK(bench.link(shared).counters().port.dropped_queue > 0);
}

TEST_CASE("loss limits a stream about as the formula of Mathis et al. predicts") {
    Bench bench;
    const LinkIndex forth = bench.add(link_of(1e9, 10ms, 0.01));
    const LinkIndex back = bench.add(link_of(1e9, 10ms));
    const StreamId stream = bench.table().add(options(WindowGrowth::kReno), {{forth}, {back}});
    bench.table().write(stream, 1ULL << 40U, bench.now());
    bench.run(1, 120s);
    const double rate_bps = static_cast<double>(bench.table().receiver(stream).arrived()) * 8 / 120;
    // MSS / RTT * sqrt(3/2) / sqrt(p), of which delayed acknowledgements leave sqrt(1/2).
    const double mathis_bps = kSegmentBytes * 8 / 0.02 * 1.22 / 0.1;
    CHECK(rate_bps > 0.4 * mathis_bps);
    CHECK(rate_bps < 1.5 * mathis_bps);
}

TEST_CASE("everything arrives once and in order over impaired links") {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        Bench bench;
        LinkOptions bad = link_of(1e7, 3ms, 0.05, 30'000, seed);
        bad.jitter = 2ms;
        bad.reorder = 0.05;
        bad.reorder_delay = 5ms;
        bad.duplicate = 0.02;
        bad.corrupt = 0.02;
        const LinkIndex forth = bench.add(bad);
        bad.port.seed = seed + 100;
        const LinkIndex back = bench.add(bad);
        const StreamId stream = bench.table().add(options(), {{forth}, {back}});
        std::uint64_t written = 0;
        for (std::uint64_t piece = 0; piece < 40; ++piece) {
            written += 1 + piece * 977;
            bench.table().watch(stream, written, piece);
            bench.table().write(stream, 1 + piece * 977, bench.now());
        }
        REQUIRE(bench.run(40) == 40);
        CHECK(bench.table().receiver(stream).arrived() == written);
        bench.run(1, 60s);
        CHECK(bench.table().sender(stream).acknowledged() == written);
        CHECK(bench.table().next_deadline() == kNever);
    }
}

TEST_CASE("a sender's own queue delays it and drops nothing") {
    Bench bench;
    const LinkIndex forth = bench.add(link_of(1e7, 50ms, 0.0, 20'000));
    const LinkIndex back = bench.add(link_of(1e9, 50ms));
    const StreamId stream = bench.table().add(options(), {{forth}, {back}});
    bench.table().watch(stream, 4'000'000, 1);
    bench.table().write(stream, 4'000'000, bench.now());
    CHECK(bench.run(1) == 1);
    CHECK(bench.link(forth).counters().port.dropped_queue == 0);
}

TEST_CASE("a stream resumes after its link was down for seconds") {
    Bench bench;
    const LinkIndex forth = bench.add(link_of(1e8, 1ms));
    const LinkIndex back = bench.add(link_of(1e8, 1ms));
    const StreamId stream = bench.table().add(options(), {{forth}, {back}});
    bench.table().watch(stream, 20'000'000, 1);
    bench.table().write(stream, 20'000'000, bench.now());
    CHECK(bench.run(1, 500ms) == 0);
    bench.link(forth).set_up(false, bench.now());
    CHECK(bench.run(1, 5s) == 0);
    bench.link(forth).set_up(true, bench.now());
    CHECK(bench.run(1, 30s) == 1);
    CHECK(bench.table().sender(stream).counters().timeouts > 2);
}
