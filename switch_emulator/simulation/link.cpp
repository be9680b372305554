#include "switch_emulator/simulation/link.hpp"

#include <algorithm>
#include <utility>

namespace innet::simulation {
namespace {

constexpr std::uint64_t kMostFlippedBits = 3;

bool has_impairments(const LinkOptions& options) {
    return options.jitter > Duration::zero() || options.reorder > 0.0 || options.duplicate > 0.0 ||
           options.corrupt > 0.0;
}

}  // namespace

Link::Link(const LinkOptions& options, PacketPool& pool)
    : options_(options),
      port_(options.port),
      pool_(pool),
      // Draws of its own: with jitter added, the port still loses the same packets.
      random_(port::RandomBits(options.port.seed).next()),
      impaired_(has_impairments(options)) {}

void Link::enqueue(OutgoingPacket&& packet, TimePoint now) {
    ++counters_.entered;
    if (!up_) {
        ++counters_.dropped_down;
        return;
    }
    port_.enqueue(std::move(packet), now);
}

void Link::take_arrived(TimePoint now, std::vector<OutgoingPacket>& into) {
    const std::size_t before = into.size();
    if (!impaired_ && delayed_.empty()) {
        port_.take_ready(now, into);
    } else {
        leave_port(now);
        while (!delayed_.empty() && delayed_.front().arrives <= now) {
            std::ranges::pop_heap(delayed_, arrives_later);
            into.push_back(std::move(delayed_.back().packet));
            delayed_.pop_back();
        }
    }
    counters_.delivered += into.size() - before;
}

TimePoint Link::next_deadline() const {
    const TimePoint of_port = port_.next_deadline();
    return delayed_.empty() ? of_port : std::min(of_port, delayed_.front().arrives);
}

void Link::set_up(bool up, TimePoint now) {
    if (up_ && !up) {
        leave_port(now);
        counters_.dropped_down += port_.clear();
        counters_.dropped_down += std::erase_if(
            delayed_, [now](const Delayed& delayed) { return delayed.arrives > now; });
        std::ranges::make_heap(delayed_, arrives_later);
    }
    up_ = up;
}

void Link::change(const LinkOptions& options, TimePoint now) {
    leave_port(now);
    options_ = options;
    impaired_ = has_impairments(options);
    port_.change(options.port);
}

LinkCounters Link::counters() const {
    LinkCounters counters = counters_;
    counters.port = port_.counters();
    counters.inside = port_.size() + delayed_.size();
    return counters;
}

void Link::audit(AuditReport& report) const {
    const LinkCounters now = counters();
    report.expect_equal(now.entered + now.duplicated,
                        now.delivered + now.port.dropped_queue + now.port.dropped_loss +
                            now.dropped_down + now.inside,
                        "packets that entered a link");
}

bool Link::arrives_later(const Delayed& a, const Delayed& b) {
    return std::pair(a.arrives, a.number) > std::pair(b.arrives, b.number);
}

void Link::leave_port(TimePoint now) {
    // One instant after the other: a late call of the driver must not delay packets that were on
    // time.
    while (port_.next_deadline() <= now) {
        const TimePoint crossed = port_.next_deadline();
        port_.take_ready(crossed, crossed_);
        for (OutgoingPacket& packet : crossed_) {
            impair(std::move(packet), crossed);
        }
        crossed_.clear();
    }
}

void Link::impair(OutgoingPacket&& packet, TimePoint crossed) {
    if (random_.happens(options_.duplicate)) {
        ++counters_.duplicated;
        schedule(OutgoingPacket(packet), crossed);
    }
    schedule(std::move(packet), crossed);
}

void Link::schedule(OutgoingPacket&& packet, TimePoint crossed) {
    Duration jitter{0};
    if (options_.jitter > Duration::zero()) {
        const auto bound = static_cast<std::uint64_t>(options_.jitter.count()) + 1;
        jitter = Duration(static_cast<Duration::rep>(random_.below(bound)));
    }
    TimePoint arrives = std::max(in_order_from_, crossed + jitter);
    if (random_.happens(options_.reorder)) {
        ++counters_.reordered;
        arrives += options_.reorder_delay;
    } else {
        in_order_from_ = arrives;
    }
    if (random_.happens(options_.corrupt)) {
        corrupt(packet);
    }
    delayed_.push_back({arrives, next_number_++, std::move(packet)});
    std::ranges::push_heap(delayed_, arrives_later);
}

void Link::corrupt(OutgoingPacket& packet) {
    const auto header = packet.header_bytes();
    const auto payload = packet.payload.bytes();
    PacketRef copy = pool_.allocate(header.size() + payload.size());
    const auto bytes = copy.writable();
    if (bytes.empty()) {
        return;  // nothing in it that could be flipped
    }
    copy.set_virtual_bytes(packet.payload.virtual_bytes());
    std::ranges::copy(payload, std::ranges::copy(header, bytes.begin()).out);
    const std::uint64_t bits = 8 * bytes.size();
    const std::uint64_t first = random_.below(bits);
    bytes[first / 8] ^= static_cast<std::uint8_t>(1U << (first % 8));
    for (std::uint64_t more = random_.below(kMostFlippedBits); more > 0; --more) {
        // Distances below the packet's own length: the first bit is never flipped back.
        const std::uint64_t other = (first + 1 + random_.below(bits - 1)) % bits;
        bytes[other / 8] ^= static_cast<std::uint8_t>(1U << (other % 8));
    }
    packet.payload = std::move(copy);
    packet.header_size = 0;
    ++counters_.corrupted;
}

}  // namespace innet::simulation
