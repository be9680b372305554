#pragma once
// One direction of a link: rate, propagation delay, random loss, a finite drop-tail queue and
// congestion marks. Sans-IO: each call passes the time, and the model returns packets when the
// modelled link would have delivered them.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "switch_emulator/port/random_bits.hpp"
#include "transport/metric.hpp"
#include "transport/time.hpp"

namespace innet::port {

/// What a packet costs on an Ethernet beside its own bytes: IPv4 and UDP headers, Ethernet header.
inline constexpr std::size_t kFramingBytes = 28 + 14;

struct PortOptions {
    std::optional<double> rate_bps;  ///< absent: no serialisation time
    Duration delay{0};               ///< one-way propagation
    double loss = 0.0;               ///< probability that a packet vanishes on the wire
    /// A token bucket of so many bytes, as the kernel's tbf: what an idle link saves up passes at
    /// once.
    std::size_t burst_bytes = 0;
    std::size_t queue_bytes = 512 * 1024;   ///< waiting for the link; beyond, packets are dropped
    std::optional<std::size_t> mark_bytes;  ///< Data that finds more than this queued is marked
    std::uint64_t seed = 1;
};

struct PortCounters {
    /// = sent + dropped_queue + dropped_loss + packets that `clear` removed + packets on the link
    std::uint64_t enqueued = 0;
    std::uint64_t sent = 0;
    std::uint64_t bytes = 0;
    std::uint64_t dropped_queue = 0;
    std::uint64_t dropped_loss = 0;
    std::uint64_t marked = 0;
    std::uint64_t depth_bytes = 0;
    std::uint64_t max_depth_bytes = 0;

    static constexpr auto metrics() {
        using enum MetricKind;
        return std::to_array<Metric<PortCounters>>({
            {"enqueued", "", kCounter, "Packets that entered the link's queue",
             &PortCounters::enqueued},
            {"sent", "", kCounter, "Packets that left the link's queue", &PortCounters::sent},
            {"sent_bytes", "link_sent_bytes", kCounter,
             "Bytes that left the link's queue, framing included", &PortCounters::bytes},
            {"dropped_queue", "link_queue_dropped_packets", kCounter,
             "Packets dropped because the link's queue was full", &PortCounters::dropped_queue},
            {"dropped_loss", "link_lost_packets", kCounter, "Packets that the emulated link lost",
             &PortCounters::dropped_loss},
            {"marked", "link_marked_packets", kCounter, "Packets that the link's queue marked",
             &PortCounters::marked},
            {"depth_bytes", "link_queue_bytes", kGauge,
             "Bytes in the link's queue, framing included", &PortCounters::depth_bytes},
            {"max_depth_bytes", "", kGauge, "Most bytes in the link's queue at once",
             &PortCounters::max_depth_bytes},
        });
    }
};
static_assert(has_metric_for_each_member<PortCounters>());

/// Packets leave in the order of coming. Without rate, delay and loss, what is enqueued is ready at
/// once.
class PortModel {
  public:
    explicit PortModel(const PortOptions& options);

    void enqueue(OutgoingPacket&& packet, TimePoint now);
    /// Appends the packets that have arrived at the link's other end by `now`, in order.
    void take_ready(TimePoint now, std::vector<OutgoingPacket>& into);
    TimePoint next_deadline() const;
    /// Applies to later packets. Queued and transmitted packets keep their schedule, and no later
    /// packet overtakes them. The random generator continues: the new seed is not used.
    void change(const PortOptions& options) { options_ = options; }
    /// How long it takes until no more than `bytes` wait for the link.
    Duration time_to_depth(std::size_t bytes, TimePoint now);
    /// Takes away whatever is queued or on the wire; how many packets that were.
    std::size_t clear();
    /// Packets queued and on the wire.
    std::size_t size() const { return count_; }
    const PortCounters& counters() const { return counters_; }

  private:
    struct InFlight {
        OutgoingPacket packet;
        TimePoint serialised;  ///< left the queue
        TimePoint arrives;
        bool lost = false;
    };

    InFlight& at(std::size_t index) { return ring_[(head_ + index) & (ring_.size() - 1)]; }
    const InFlight& at(std::size_t index) const {
        return ring_[(head_ + index) & (ring_.size() - 1)];
    }
    void push(InFlight&& entry);
    void drain_queue(TimePoint now);
    Duration serialisation(std::size_t bytes);
    Duration burst_time() const;

    PortOptions options_;
    PortCounters counters_;
    std::vector<InFlight> ring_;  ///< capacity is a power of two; grows, never shrinks
    std::size_t head_ = 0;
    std::size_t count_ = 0;
    std::size_t serialised_count_ = 0;  ///< of the first `count_`, how many have left the queue
    TimePoint busy_until_{};
    double unpaid_ns_ = 0;  ///< what rounding has cut from the serialisation times so far, below 1
    RandomBits random_;
};

}  // namespace innet::port
