#pragma once
// One direction of a modelled link: a port (rate, delay, random loss, finite queue, marks) and
// other impairments of real networks. Sans-IO and deterministic: the port's seed gives all
// randomness.

#include <array>
#include <cstdint>
#include <vector>

#include "switch_emulator/port/port_model.hpp"
#include "switch_emulator/port/random_bits.hpp"
#include "transport/audit.hpp"
#include "transport/metric.hpp"

namespace innet::simulation {

struct LinkOptions {
    port::PortOptions port;
    Duration jitter{0};         ///< a random delay up to this on top; order is kept
    double reorder = 0.0;       ///< probability that a packet is held up, and may be overtaken
    Duration reorder_delay{0};  ///< for how long
    double duplicate = 0.0;     ///< probability that a packet arrives twice
    double corrupt = 0.0;       ///< probability that one to three bits of a packet are flipped
};

/// entered + duplicated = delivered + port.dropped_queue + port.dropped_loss + dropped_down +
/// inside
struct LinkCounters {
    port::PortCounters port;
    std::uint64_t entered = 0;
    std::uint64_t delivered = 0;
    std::uint64_t duplicated = 0;
    std::uint64_t corrupted = 0;
    std::uint64_t reordered = 0;     ///< held up by `reorder_delay`
    std::uint64_t dropped_down = 0;  ///< lost because the link was down, or went down
    std::uint64_t inside = 0;        ///< queued, on the wire, or held up

    static constexpr auto metrics() {
        using enum MetricKind;
        return std::to_array<Metric<LinkCounters>>({
            {"duplicated", "", kCounter, "Packets that the emulated link delivered twice",
             &LinkCounters::duplicated},
            {"corrupted", "", kCounter, "Packets in which the emulated link flipped bits",
             &LinkCounters::corrupted},
            {"reordered", "", kCounter, "Packets that the emulated link delayed behind later ones",
             &LinkCounters::reordered},
            {"dropped_down", "", kCounter, "Packets lost because the link was down",
             &LinkCounters::dropped_down},
        });
    }
};

/// Without impairments, all it does is hand packets to its port and take them from there.
class Link {
  public:
    /// `pool` gives the memory of corrupted copies; it outlives the link and the packets.
    Link(const LinkOptions& options, PacketPool& pool);

    void enqueue(OutgoingPacket&& packet, TimePoint now);
    /// Appends the packets that have arrived at the other end by `now`, in order of arrival. A
    /// corrupted one has no header of its own: its bytes, whatever they say now, are all payload.
    void take_arrived(TimePoint now, std::vector<OutgoingPacket>& into);
    /// When to call `take_arrived` next. With impairments that may find nothing, and a later
    /// deadline.
    TimePoint next_deadline() const;

    /// How long it takes until no more than half of the queue is full.
    Duration time_to_half_queue(TimePoint now) {
        return port_.time_to_depth(options_.port.queue_bytes / 2, now);
    }

    /// A link that is taken down loses packets that have not arrived by `now`, and all packets that
    /// are enqueued until it is up again with an empty queue. A new link is up.
    void set_up(bool up, TimePoint now);
    bool up() const { return up_; }
    /// The port's options hold for what is enqueued from `now` on, the others for what reaches the
    /// far end from then on. The seed stays the first one.
    void change(const LinkOptions& options, TimePoint now);

    const LinkOptions& options() const { return options_; }
    LinkCounters counters() const;
    /// Whether every packet is accounted for.
    void audit(AuditReport& report) const;

  private:
    struct Delayed {
        TimePoint arrives;
        std::uint64_t number;  ///< orders packets that arrive at the same time
        OutgoingPacket packet;
    };
    static bool arrives_later(const Delayed& a, const Delayed& b);

    void leave_port(TimePoint now);
    void impair(OutgoingPacket&& packet, TimePoint crossed);
    void schedule(OutgoingPacket&& packet, TimePoint crossed);
    void corrupt(OutgoingPacket& packet);

    LinkOptions options_;
    port::PortModel port_;
    PacketPool& pool_;
    port::RandomBits random_;
    bool up_ = true;
    bool impaired_;
    std::vector<Delayed> delayed_;  ///< a heap, the next to arrive in front
    std::uint64_t next_number_ = 0;
    TimePoint in_order_from_{};  ///< what is not held up arrives no earlier than the one before it
    std::vector<OutgoingPacket> crossed_;  ///< scratch, kept for its capacity
    LinkCounters counters_;                ///< but for those of the port, and `inside`
};

}  // namespace innet::simulation
