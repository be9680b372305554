#pragma once
// The links of a running node, added and removed at run time: moves packets from their channels to
// the engine, and from its outbox to the channels.

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "switch_emulator/driver/data_digests.hpp"
#include "switch_emulator/driver/link.hpp"
#include "switch_emulator/driver/link_status.hpp"
#include "switch_emulator/driver/packet_tap.hpp"
#include "switch_emulator/forwarding/node.hpp"
#include "transport/metric.hpp"

namespace innet::driver {

/// What happened to faces since the node came up.
struct FaceTableCounters {
    std::uint64_t opened = 0;
    std::uint64_t closed = 0;
    std::uint64_t bad_framing = 0;
    std::uint64_t foreign_protocol = 0;
    std::uint64_t sent_malformed = 0;
    std::uint64_t refused = 0;
    std::uint64_t evicted = 0;

    static constexpr auto metrics() {
        using enum MetricKind;
        return std::to_array<Metric<FaceTableCounters>>({
            {"faces_opened", "faces_opened", kCounter, "Faces opened by NDN programs",
             &FaceTableCounters::opened},
            {"faces_closed", "faces_closed", kCounter, "Faces of NDN programs closed",
             &FaceTableCounters::closed},
            {"bad_framing", "bad_framing", kCounter,
             "Faces closed because the bytes received are no sequence of packets",
             &FaceTableCounters::bad_framing},
            {"foreign_protocol", "foreign_protocol", kCounter,
             "Faces closed because the peer does not speak NDN",
             &FaceTableCounters::foreign_protocol},
            {"sent_malformed", "sent_malformed", kCounter,
             "Faces closed because a packet was malformed", &FaceTableCounters::sent_malformed},
            {"faces_refused", "faces_refused", kCounter,
             "Connections refused because there were too many", &FaceTableCounters::refused},
            {"faces_evicted", "faces_evicted", kCounter,
             "UDP peers evicted to make room for others", &FaceTableCounters::evicted},
        });
    }
};
static_assert(has_metric_for_each_member<FaceTableCounters>());

/// Confined to the node's thread, but for `add` before the thread starts.
class LinkTable {
  public:
    /// Events of a link's channel carry its face as `data.u64`.
    LinkTable(forwarding::Node& node, security::BatchHasher& hasher, PacketPool& pool,
              int epoll_fd);
    LinkTable(const LinkTable&) = delete;
    LinkTable& operator=(const LinkTable&) = delete;

    /// A link to another node of the network: its face is its place among those added before any
    /// other kind. `trusted`: segments go without their MACs (`FaceOptions`).
    /// Nothing, with `error` set, when the system refuses.
    std::optional<FaceId> add(std::unique_ptr<Channel> channel,
                              const std::optional<simulation::LinkOptions>& shape,
                              std::string& error, bool trusted = false);
    /// Gives a link of the network another shape from `now` on; one that is not `up` loses all
    /// packets. Without a shape before, it is modelled from now on. False: there is no such link.
    bool reshape(FaceId face, const simulation::LinkOptions& shape, bool up, TimePoint now);
    /// Adds a link to any NDN program; uses the scope and the admission of `options`. Nothing when
    /// there are too many of its kind already, which is counted.
    std::optional<FaceId> add_foreign(std::unique_ptr<Channel> channel, FaceOptions options,
                                      management::FaceDescription description, TimePoint now);
    bool has_room(LinkKind kind) const { return links_of(kind) < most_links(kind); }
    void count_refused() { ++counters_.refused; }
    /// Closes a peer of a UDP port, of those of that kind that no client created: preferably one
    /// without routes, and of these the one silent for longest. False when there is none.
    bool evict_udp_peer(LinkKind kind, TimePoint now);
    /// Closes the oldest accepted connection of that kind that has no routes and has sent neither
    /// an Interest nor Data. False when there is none.
    bool evict_silent(LinkKind kind, TimePoint now);
    void close(FaceId face, TimePoint now);
    void close_foreign(TimePoint now);
    /// Called when a foreign link has been closed.
    void set_on_closed(std::function<void(FaceId)> on_closed) { on_closed_ = std::move(on_closed); }
    /// Null when there is none.
    Link* find(FaceId face);
    const Link* find(FaceId face) const;

    /// The first foreign one that `is_wanted`.
    template <typename Predicate>
    std::optional<FaceId> find_foreign(Predicate&& is_wanted) const {
        for (const auto& link : links_) {
            if (link != nullptr && link->foreign() && is_wanted(*link)) return link->face;
        }
        return std::nullopt;
    }

    void on_readable(FaceId face, TimePoint now);
    void on_writable(FaceId face, TimePoint now);
    /// Called before the thread waits for events: false when packets are here without an event.
    bool rest();
    /// Receives packets that arrived without an event.
    void receive_without_event(TimePoint now);
    /// Takes packets that another channel received for a link without a descriptor.
    void deliver(FaceId face, std::vector<PacketRef>& packets, TimePoint now);
    /// Reports neighbours whose port was closed since the last call to the node; whether any was.
    bool note_refusals(TimePoint now);
    /// Sends what the node has put into its outbox, as far as there is room.
    void flush(TimePoint now);
    TimePoint next_deadline() const;
    void on_timer(TimePoint now);

    /// `tap` receives copies of all packets from now on, until its reader closes it.
    void add_tap(PacketTap tap) { taps_.push_back(std::move(tap)); }

    std::vector<LinkStatus> status() const;
    const FaceTableCounters& counters() const { return counters_; }

  private:
    std::size_t links_of(LinkKind kind) const {
        return links_by_kind_[static_cast<std::size_t>(kind)];
    }
    Link* put(std::unique_ptr<Link> link, const FaceOptions& options);
    /// Whether an Interest or Data came by it.
    bool has_spoken(const Link& link) const;
    void take_outbox(Link& link, TimePoint now);
    void mark_congestion(Link& link, std::span<OutgoingPacket> packets, TimePoint now);
    void flush_link(Link& link, TimePoint now);
    static void count_left(Link& link, std::span<const OutgoingPacket> packets);
    void drop_sent(Link& link);
    void bound_backlog(Link& link);
    void hold_backlog(Link& link);
    bool may_hold(const Link& link, std::size_t bytes) const;
    /// `count` packets from the front of the backlog have left.
    void release_held(Link& link, std::size_t count);
    void drop_backlog_from(Link& link, std::size_t count);
    void deliver_one(Link& link, PacketRef packet, const security::Sha256Digest* digest,
                     TimePoint now);
    void pause_if_useless(Link& link, TimePoint now);
    void note_refusal_of(const Link& link);
    void close_if_ended(Link& link, TimePoint now);
    void wait_for_room(Link& link, TimePoint now);
    void update_events(const Link& link);

    forwarding::Node& node_;
    DataDigests digests_;
    PacketPool& pool_;
    int epoll_fd_;
    std::vector<std::unique_ptr<Link>> links_;  ///< by face; null for none
    std::vector<FaceId> modelled_;
    std::vector<FaceId> awake_;  ///< whose channels may have packets that no event tells of
    std::array<std::size_t, kLinkKinds> links_by_kind_{};
    std::size_t held_bytes_ = 0;  ///< in the backlogs of all foreign links
    FaceTableCounters counters_;
    std::vector<PacketTap> taps_;
    std::function<void(FaceId)> on_closed_;
    // Scratch of one function each, kept for its capacity.
    std::vector<PacketRef> received_;
    std::vector<FaceId> busy_;
    std::vector<FaceId> refused_;
    std::vector<FaceId> paused_;
    std::vector<FaceId> retried_;  ///< without a descriptor of their own that could tell of room
    TimePoint retry_at_ = kNever;
};

}  // namespace innet::driver
