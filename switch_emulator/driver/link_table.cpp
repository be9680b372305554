#include "switch_emulator/driver/link_table.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "switch_emulator/tables/compact.hpp"

namespace innet::driver {

namespace {

/// Packets a link of the network may hold back while its channel has no room.
constexpr std::size_t kMaxBacklogPackets = 16384;
/// Where there is room only when the neighbour reads: one that never does must not pin much.
constexpr std::size_t kMaxUnreadBacklogPackets = 1024;
/// For one peer of a UDP port, whose packets may be dropped.
constexpr std::size_t kMaxPeerBacklogPackets = 512;
/// Of a foreign link, with what each packet takes beside its bytes: a client may send thousands of
/// commands before it reads the first answer.
constexpr std::size_t kMaxForeignBacklogBytes = std::size_t{8} << 20;
/// Of all of them together: each may have as much as is left of it (as `tables::FaceRecords`).
constexpr std::size_t kMaxHeldBytes = std::size_t{128} << 20;
/// Guaranteed to each link, so that peers that never read leave room for the others.
constexpr std::size_t kGuaranteedBacklogBytes = std::size_t{64} << 10;
/// A foreign face that sends what is only rejected is not read for this time per packet: rejecting
/// a packet takes a small part of it, so that a flood leaves the processor to others.
constexpr Duration kPausePerRejection = std::chrono::microseconds(20);
/// In rejections: management may have verified its signature before.
constexpr std::uint64_t kForbiddenCommandWeight = 5;
/// Fewer at once are no flood.
constexpr std::uint64_t kRejectionsBeforePause = 32;
constexpr Duration kRetryInterval = std::chrono::milliseconds(1);

std::uint64_t rejections(const forwarding::FaceCounters& face) {
    return face.nacks_out + face.malformed_in + face.scope_violations_in +
           kForbiddenCommandWeight * face.commands_forbidden_in;
}

void take_in(std::span<const OutgoingPacket> packets) {
    for (const OutgoingPacket& packet : packets) packet.payload.take_in();
}

/// What a packet keeps of the node's memory: all of the buffer that its bytes lie in.
std::size_t memory_of(const OutgoingPacket& packet) {
    return packet.payload.pinned_bytes() + sizeof(OutgoingPacket);
}

}  // namespace

LinkTable::LinkTable(forwarding::Node& node, security::BatchHasher& hasher, PacketPool& pool,
                     int epoll_fd)
    : node_(node), digests_(hasher), pool_(pool), epoll_fd_(epoll_fd) {}

std::optional<FaceId> LinkTable::add(std::unique_ptr<Channel> channel,
                                     const std::optional<simulation::LinkOptions>& shape,
                                     std::string& error, bool trusted) {
    auto link = std::make_unique<Link>();
    link->channel = std::move(channel);
    link->description.persistency = management::FacePersistency::kPermanent;
    if (shape) link->model.emplace(*shape, pool_);
    FaceOptions options;
    options.takes_parts = link->channel->takes_parts() && !shape;
    options.trusted = trusted;
    options.lossy = shape && shape->port.loss > 0.0;
    const Link* added = put(std::move(link), options);
    if (added == nullptr) {
        error = std::string("epoll_ctl refused the socket: ") + std::strerror(errno);
        return std::nullopt;
    }
    if (added->model) modelled_.push_back(added->face);
    return added->face;
}

bool LinkTable::reshape(FaceId face, const simulation::LinkOptions& shape, bool up, TimePoint now) {
    Link* link = find(face);
    if (link == nullptr || link->foreign()) return false;
    if (link->model) {
        link->model->change(shape, now);
    } else {
        flush_link(*link, now);  // what was sent before the change crosses the link as it was
        link->model.emplace(shape, pool_);
        modelled_.push_back(face);
    }
    link->model->set_up(up, now);
    node_.set_lossy(face, up && shape.port.loss > 0.0);
    return true;
}

std::optional<FaceId> LinkTable::add_foreign(std::unique_ptr<Channel> channel, FaceOptions options,
                                             management::FaceDescription description,
                                             TimePoint now) {
    auto link = std::make_unique<Link>();
    link->kind = foreign_kind(channel->fd() >= 0, options);
    options.foreign = true;
    options.max_packet_bytes = kMaxForeignPacketBytes;
    link->channel = std::move(channel);
    link->description = std::move(description);
    link->last_heard = now;
    const Link* added = has_room(link->kind) ? put(std::move(link), options) : nullptr;
    if (added == nullptr) {
        count_refused();
        return std::nullopt;
    }
    ++counters_.opened;
    return added->face;
}

// Adds the face last, so that a link's face is its index here even after a failed attempt.
Link* LinkTable::put(std::unique_ptr<Link> link, const FaceOptions& options) {
    epoll_event event{};
    event.events = EPOLLIN;
    const int fd = link->channel->fd();
    if (fd >= 0 && ::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) return nullptr;
    const FaceId face = node_.add_face(options);
    if (face == kNoFace) return nullptr;
    link->face = face;
    link->number = node_.face_number(face);
    if (links_.size() <= face) links_.resize(face + std::size_t{1});
    ++links_by_kind_[static_cast<std::size_t>(link->kind)];
    links_[face] = std::move(link);
    if (links_[face]->channel->awake()) awake_.push_back(face);
    update_events(*links_[face]);
    return links_[face].get();
}

void LinkTable::close(FaceId face, TimePoint now) {
    Link* link = find(face);
    if (link == nullptr) return;
    const LinkKind kind = link->kind;
    held_bytes_ -= link->held_bytes;
    std::erase(modelled_, face);
    std::erase(awake_, face);
    std::erase(paused_, face);
    std::erase(refused_, face);
    // Closing alone does not end its events: other processes may hold copies of the descriptor.
    const int fd = link->channel->fd();
    if (fd >= 0) ::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
    links_[face].reset();
    ++counters_.closed;
    --links_by_kind_[static_cast<std::size_t>(kind)];
    if (kind != LinkKind::kNode && on_closed_) on_closed_(face);
    node_.close_face(face, now);
}

bool LinkTable::evict_udp_peer(LinkKind kind, TimePoint now) {
    const auto merit = [this](const Link& link) {
        return std::pair(node_.has_routes_to(link.face), link.last_heard);
    };
    const Link* victim = nullptr;
    for (const auto& link : links_) {
        if (link == nullptr || link->kind != kind) continue;
        if (link->description.persistency != management::FacePersistency::kOnDemand) continue;
        if (victim == nullptr || merit(*link) < merit(*victim)) victim = link.get();
    }
    if (victim == nullptr) return false;
    ++counters_.evicted;
    close(victim->face, now);
    return true;
}

bool LinkTable::evict_silent(LinkKind kind, TimePoint now) {
    const Link* victim = nullptr;
    for (const auto& link : links_) {
        if (link == nullptr || link->kind != kind) continue;
        if (link->description.persistency != management::FacePersistency::kOnDemand) continue;
        if (has_spoken(*link) || node_.has_routes_to(link->face)) continue;
        if (victim == nullptr || link->number < victim->number) victim = link.get();
    }
    if (victim == nullptr) return false;
    ++counters_.evicted;
    close(victim->face, now);
    return true;
}

void LinkTable::close_foreign(TimePoint now) {
    const auto any = [](const Link&) { return true; };
    while (const auto face = find_foreign(any)) close(*face, now);
}

Link* LinkTable::find(FaceId face) { return face < links_.size() ? links_[face].get() : nullptr; }

const Link* LinkTable::find(FaceId face) const {
    return face < links_.size() ? links_[face].get() : nullptr;
}

void LinkTable::on_readable(FaceId face, TimePoint now) {
    Link* link = find(face);
    if (link == nullptr) return;
    // One batch: a busy link does not keep the others waiting for long.
    link->channel->receive(pool_, received_);
    deliver(face, received_, now);
    if (link->channel->awake() && std::ranges::find(awake_, face) == awake_.end()) {
        awake_.push_back(face);
    }
    if (link->waits_for_room && !link->channel->writable_with_room()) on_writable(face, now);
    link = find(face);
    if (link == nullptr) return;
    note_refusal_of(*link);
    close_if_ended(*link, now);
}

bool LinkTable::rest() {
    std::erase_if(awake_, [this](FaceId face) { return links_[face]->channel->rest(); });
    return awake_.empty();
}

void LinkTable::receive_without_event(TimePoint now) {
    // One that ends is taken out meanwhile.
    for (std::size_t i = awake_.size(); i > 0; --i) {
        if (i <= awake_.size()) on_readable(awake_[i - 1], now);
    }
}

void LinkTable::deliver(FaceId face, std::vector<PacketRef>& packets, TimePoint now) {
    Link* link = find(face);
    if (link != nullptr && !packets.empty()) {
        link->last_heard = now;
        for (PacketTap& tap : taps_) tap.on_received(face, packets);
        digests_.compute(packets, node_);
        for (std::size_t i = 0; i < packets.size() && !link->sent_malformed; ++i) {
            deliver_one(*link, std::move(packets[i]), digests_.of(i), now);
        }
        if (link->foreign()) pause_if_useless(*link, now);
    }
    packets.clear();
}

// A client's connection ends with its first malformed packet: what follows may be anything. One
// that management made on purpose leads to a forwarder, which may pass on what others made; and so
// may one from another machine, once an Interest or Data came by it.
void LinkTable::deliver_one(Link& link, PacketRef packet, const security::Sha256Digest* digest,
                            TimePoint now) {
    const bool is_accepted = link.channel->is_stream() &&
                             link.description.persistency == management::FacePersistency::kOnDemand;
    const std::uint64_t before = node_.face_counters(link.face).malformed_in;
    node_.on_packet(link.face, std::move(packet), now, digest);
    const bool may_be_forwarder = link.kind == LinkKind::kRemote && has_spoken(link);
    const bool is_malformed = node_.face_counters(link.face).malformed_in != before;
    link.sent_malformed = is_accepted && !may_be_forwarder && is_malformed;
}

bool LinkTable::has_spoken(const Link& link) const {
    const auto& counters = node_.face_counters(link.face);
    return counters.interests_in + counters.data_in != 0;
}

void LinkTable::pause_if_useless(Link& link, TimePoint now) {
    const std::uint64_t all = rejections(node_.face_counters(link.face));
    const std::uint64_t recent = all - link.rejections_noted;
    if (recent < kRejectionsBeforePause) return;
    link.rejections_noted = all;
    if (link.paused_until <= now) paused_.push_back(link.face);
    link.paused_until = now + kPausePerRejection * static_cast<std::int64_t>(recent);
    update_events(link);
}

void LinkTable::close_if_ended(Link& link, TimePoint now) {
    const ChannelEnd end = link.channel->end();
    if (end == ChannelEnd::kOpen && !link.sent_malformed) return;
    if (end == ChannelEnd::kBadFraming) ++counters_.bad_framing;
    if (end == ChannelEnd::kForeignType) ++counters_.foreign_protocol;
    if (link.sent_malformed) ++counters_.sent_malformed;
    close(link.face, now);
}

void LinkTable::on_writable(FaceId face, TimePoint now) {
    Link* link = find(face);
    if (link == nullptr) return;
    link->waits_for_room = false;
    if (link->channel->writable_with_room()) update_events(*link);
    flush_link(*link, now);
}

void LinkTable::note_refusal_of(const Link& link) {
    if (link.channel->counters().refused != link.refusals_noted) refused_.push_back(link.face);
}

bool LinkTable::note_refusals(TimePoint now) {
    const bool any = !refused_.empty();
    for (const FaceId face : refused_) {
        Link* link = find(face);
        if (link == nullptr) continue;
        link->refusals_noted = link->channel->counters().refused;
        node_.on_peer_gone(face, now);
    }
    refused_.clear();
    return any;
}

void LinkTable::flush(TimePoint now) {
    Outbox& outbox = node_.outbox();
    // A link that ends when it is sent to makes the node send Nacks to others.
    for (outbox.take_busy(busy_); !busy_.empty(); outbox.take_busy(busy_)) {
        for (std::size_t i = 0; i < busy_.size(); ++i) {
            Link* link = find(busy_[i]);
            if (link != nullptr && !link->model) flush_link(*link, now);
        }
        busy_.clear();
    }
    for (std::size_t i = 0; i < modelled_.size(); ++i) flush_link(*links_[modelled_[i]], now);
    std::erase_if(taps_, [](const PacketTap& tap) { return tap.closed(); });
}

void LinkTable::take_outbox(Link& link, TimePoint now) {
    std::vector<OutgoingPacket>& queue = node_.outbox().queue(link.face);
    if (link.model) {
        // The face of a link that was given a model later still takes what the caller lends.
        take_in(queue);
        for (OutgoingPacket& packet : queue) link.model->enqueue(std::move(packet), now);
        queue.clear();
        link.model->take_arrived(now, link.ready);
        return;
    }
    if (link.foreign()) mark_congestion(link, queue, now);
    // What waits must not change when its lender has it back.
    if (link.waits_for_room) take_in(queue);
    if (link.ready.empty()) {
        link.ready.swap(queue);
    } else {
        std::ranges::move(queue, std::back_inserter(link.ready));
        queue.clear();
    }
}

// As NFD does, by what is queued in front of a packet: here, and in the system's buffer of a
// stream.
void LinkTable::mark_congestion(Link& link, std::span<OutgoingPacket> packets, TimePoint now) {
    if (packets.empty()) return;
    const std::size_t max_bytes = node_.face_options(link.face).max_packet_bytes;
    const std::size_t in_system =
        link.channel->queued_bytes(link.marker.options().threshold_bytes / 2);
    for (OutgoingPacket& packet : packets) {
        const std::size_t queued = link.backlog_wire_bytes + in_system;
        link.queued_max_bytes = std::max(link.queued_max_bytes, queued);
        link.marker.on_enqueue(packet, queued, max_bytes, now);
        link.backlog_wire_bytes += packet.size();
    }
}

void LinkTable::count_left(Link& link, std::span<const OutgoingPacket> packets) {
    if (!link.foreign()) return;
    for (const OutgoingPacket& packet : packets) link.backlog_wire_bytes -= packet.size();
}

void LinkTable::flush_link(Link& link, TimePoint now) {
    take_outbox(link, now);
    if (link.backlog() == 0) return;
    if (!link.waits_for_room) {
        const auto leaving = std::span(link.ready).subspan(link.sent);
        const std::size_t left = link.channel->send(leaving);
        take_in(leaving.subspan(left));
        for (PacketTap& tap : taps_) tap.on_sent(link.face, leaving.first(left));
        release_held(link, left);
        count_left(link, leaving.first(left));
        link.sent += left;
        note_refusal_of(link);
        drop_sent(link);
        if (link.channel->end() != ChannelEnd::kOpen) return close_if_ended(link, now);
        if (link.backlog() != 0) wait_for_room(link, now);
    }
    bound_backlog(link);
}

void LinkTable::bound_backlog(Link& link) {
    if (link.foreign()) return hold_backlog(link);
    const bool needs_reader = link.channel->room_needs_reader();
    drop_backlog_from(link, needs_reader ? kMaxUnreadBacklogPackets : kMaxBacklogPackets);
}

// What waits for a slow reader must not keep whole receive buffers, of which it may be a small
// part.
void LinkTable::hold_backlog(Link& link) {
    for (; link.held < link.backlog(); ++link.held) {
        OutgoingPacket& packet = link.ready[link.sent + link.held];
        packet.payload = tables::compact(packet.payload, pool_);
        const std::size_t bytes = memory_of(packet);
        if (!may_hold(link, bytes)) return drop_backlog_from(link, link.held);
        link.held_bytes += bytes;
        held_bytes_ += bytes;
    }
}

bool LinkTable::may_hold(const Link& link, std::size_t bytes) const {
    if (link.held == 0) return true;  // a part of it may have left already
    if (is_udp_peer(link.kind) && link.held >= kMaxPeerBacklogPackets) return false;
    const std::size_t left = kMaxHeldBytes - std::min(held_bytes_, kMaxHeldBytes);
    return link.held_bytes + bytes <=
           std::max(kGuaranteedBacklogBytes, std::min(kMaxForeignBacklogBytes, left));
}

void LinkTable::release_held(Link& link, std::size_t count) {
    count = std::min(count, link.held);
    link.held -= count;
    for (const OutgoingPacket& packet : std::span(link.ready).subspan(link.sent, count)) {
        link.held_bytes -= memory_of(packet);
        held_bytes_ -= memory_of(packet);
    }
}

void LinkTable::drop_backlog_from(Link& link, std::size_t count) {
    if (link.backlog() <= count) return;
    link.backlog_dropped += link.backlog() - count;
    count_left(link, std::span(link.ready).subspan(link.sent + count));
    link.ready.resize(link.sent + count);
}

void LinkTable::drop_sent(Link& link) {
    if (link.backlog() == 0) {
        link.ready.clear();
        link.sent = 0;
    } else if (link.sent > link.backlog()) {  // keeps moving the rest to the front cheap
        link.ready.erase(link.ready.begin(),
                         link.ready.begin() + static_cast<std::ptrdiff_t>(link.sent));
        link.sent = 0;
    }
}

void LinkTable::wait_for_room(Link& link, TimePoint now) {
    link.waits_for_room = true;
    if (!link.channel->writable_with_room()) return;
    if (link.channel->fd() >= 0) return update_events(link);
    retried_.push_back(link.face);
    retry_at_ = std::min(retry_at_, now + kRetryInterval);
}

void LinkTable::update_events(const Link& link) {
    const int fd = link.channel->fd();
    if (fd < 0) return;
    const bool is_paused = std::ranges::find(paused_, link.face) != paused_.end();
    epoll_event event{};
    if (!is_paused) event.events |= EPOLLIN;
    if (link.waits_for_room) event.events |= EPOLLOUT;
    event.data.u64 = link.face;
    ::epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event);
}

TimePoint LinkTable::next_deadline() const {
    TimePoint deadline = retry_at_;
    for (const FaceId face : modelled_) {
        deadline = std::min(deadline, links_[face]->model->next_deadline());
    }
    for (const FaceId face : paused_) deadline = std::min(deadline, links_[face]->paused_until);
    return deadline;
}

void LinkTable::on_timer(TimePoint now) {
    for (std::size_t i = 0; i < paused_.size();) {
        const Link& link = *links_[paused_[i]];
        if (link.paused_until > now) {
            ++i;
            continue;
        }
        paused_.erase(paused_.begin() + static_cast<std::ptrdiff_t>(i));
        update_events(link);
    }
    if (retry_at_ > now) return;
    retry_at_ = kNever;
    std::vector<FaceId> retried;
    retried.swap(retried_);
    for (const FaceId face : retried) on_writable(face, now);
}

std::vector<LinkStatus> LinkTable::status() const {
    std::vector<LinkStatus> result;
    for (const auto& link : links_) {
        if (link == nullptr) continue;
        LinkStatus& status = result.emplace_back();
        status.face = link->face;
        status.number = link->number;
        status.foreign = link->foreign();
        status.remote_uri = link->description.remote_uri;
        status.face_counters = node_.face_counters(link->face);
        status.socket_counters = link->channel->counters();
        if (link->model) status.link_counters = link->model->counters();
        status.backlog_packets = link->backlog();
        status.backlog_bytes = link->held_bytes;
        status.backlog_dropped = link->backlog_dropped;
        status.queued_max_bytes = link->queued_max_bytes;
        status.congestion_marked = link->marker.marked();
        status.dropped_paused = link->dropped_paused;
        status.silent = node_.is_silent(link->face);
    }
    return result;
}

}  // namespace innet::driver
