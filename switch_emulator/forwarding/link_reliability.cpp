#include "switch_emulator/forwarding/link_reliability.hpp"

#include <algorithm>
#include <utility>

namespace innet::forwarding {

namespace {

/// Later packets that are acknowledged before one that is not (RFC 9002, kPacketThreshold).
constexpr std::uint64_t kPacketThreshold = 3;
constexpr std::uint8_t kMostRepetitions = 4;
/// A timeout repeats so many: the acknowledgement of one of them shows which others were lost.
constexpr std::size_t kMostAtTimeout = 8;
constexpr std::size_t kFirstKept = 64;
constexpr std::size_t kMostKept = 4096;
constexpr std::size_t kMostKeptBytes = std::size_t{4} << 20;
/// Above the delay of an acknowledgement and what a busy machine adds to it.
constexpr Duration kShortestTimeout = std::chrono::milliseconds(5);
/// Before the first sample. On a longer link a few packets are repeated needlessly, until the first
/// acknowledgement arrives.
constexpr Duration kFirstTimeout = std::chrono::milliseconds(10);
constexpr Duration kLongestTimeout = std::chrono::milliseconds(200);
/// After its last sending: on a link that is down, what is older has been requested again.
constexpr Duration kLifetime = std::chrono::seconds(1);
constexpr Duration kAcknowledgementDelay = std::chrono::milliseconds(1);

/// The packet, with another number in its header.
OutgoingPacket with_number(OutgoingPacket packet, std::uint64_t number) {
    const OutgoingPacket before = packet;
    const auto view = wire::LpView::parse_header(before.header_bytes());
    if (!view) return packet;
    wire::LpFields fields = view->fields();
    fields.tx_sequence = number;
    packet.header_size = static_cast<std::uint8_t>(
        wire::encode_lp_header(fields, packet.payload.size(), packet.header));
    return packet;
}

Duration lifetime(const RttEstimator& rtt) { return std::max(kLifetime, 3 * rtt.smoothed()); }

}  // namespace

UnacknowledgedPackets::UnacknowledgedPackets() : rtt_(kFirstTimeout / 10, kLongestTimeout) {}

std::size_t UnacknowledgedPackets::add(const OutgoingPacket& packet, TimePoint now) {
    skip_released();
    if (next_ - oldest_ == ring_.size() && ring_.size() < kMostKept) grow();
    std::size_t given_up = 0;
    while (size_ > 0 &&
           (next_ - oldest_ == ring_.size() || bytes_ + packet.size() > kMostKeptBytes)) {
        release(oldest_);
        skip_released();
        ++given_up;
    }
    keep(packet, 0, now);
    return given_up;
}

void UnacknowledgedPackets::keep(OutgoingPacket packet, std::uint8_t repetitions, TimePoint now) {
    bytes_ += packet.size();
    ++size_;
    at(next_) = {.packet = std::move(packet),
                 .number = next_,
                 .sent = now,
                 .repetitions = repetitions,
                 .is_awaited = true};
    ++next_;
}

OutgoingPacket UnacknowledgedPackets::release(std::uint64_t number) {
    Kept& kept = at(number);
    kept.is_awaited = false;
    --size_;
    bytes_ -= kept.packet.size();
    return std::exchange(kept.packet, {});
}

void UnacknowledgedPackets::skip_released() {
    while (oldest_ < next_ && !at(oldest_).is_awaited) ++oldest_;
}

void UnacknowledgedPackets::grow() {
    std::vector<Kept> grown(std::max(kFirstKept, 2 * ring_.size()));
    for (std::uint64_t number = oldest_; number < next_; ++number) {
        grown[number & (grown.size() - 1)] = std::move(at(number));
    }
    ring_.swap(grown);
}

void UnacknowledgedPackets::on_acknowledged(std::uint64_t number, TimePoint now) {
    if (ring_.empty() || number == 0 || at(number).number != number) return;
    // Also of one that was late, not lost: else a timeout below the round trip would never grow.
    rtt_.sample(now - at(number).sent);
    latest_acknowledged_ = std::max(latest_acknowledged_, number);
    last_acknowledged_ = now;
    at(number).number = 0;
    if (at(number).is_awaited) release(number);
    release_successor(at(number).successor);
    skip_released();
}

void UnacknowledgedPackets::release_successor(std::uint64_t number) {
    while (number != 0 && at(number).number == number) {
        if (at(number).is_awaited) release(number);
        number = at(number).successor;
    }
}

bool UnacknowledgedPackets::is_overtaken(std::uint64_t number) const {
    return number + kPacketThreshold <= latest_acknowledged_;
}

// In the order of the numbers: packets are sent in it.
TimePoint UnacknowledgedPackets::deadline_of(std::uint64_t number) const {
    const TimePoint sent = at(number).sent;
    if (is_overtaken(number)) return sent + std::max(rtt_.smoothed(), rtt_.latest()) * 9 / 8;
    const TimePoint timeout = std::max({sent, last_acknowledged_, last_timeout_}) +
                              std::max(rtt_.timeout(), kShortestTimeout);
    return std::min(timeout, sent + lifetime(rtt_));
}

UnacknowledgedPackets::Losses UnacknowledgedPackets::take_lost(TimePoint now,
                                                               std::vector<OutgoingPacket>& into) {
    Losses losses;
    std::size_t timed_out = 0;
    // The repetitions made here, which have later numbers, are not examined in this call.
    const std::uint64_t end = next_;
    for (skip_released(); oldest_ < end; skip_released()) {
        if (deadline_of(oldest_) > now) break;
        const bool is_old = at(oldest_).sent + lifetime(rtt_) <= now;
        const bool is_timeout = !is_old && !is_overtaken(oldest_);
        if (is_timeout && timed_out == kMostAtTimeout) break;
        if (is_timeout) ++timed_out;
        const std::uint8_t repetitions = at(oldest_).repetitions;
        OutgoingPacket lost = release(oldest_);
        if (is_old || repetitions == kMostRepetitions) {
            ++losses.given_up;
            continue;
        }
        ++losses.repeated;
        at(oldest_).successor = next_;
        into.push_back(with_number(std::move(lost), next_));
        skip_released();
        keep(into.back(), repetitions + 1, now);
    }
    if (timed_out > 0) {
        rtt_.back_off();
        last_timeout_ = now;
    }
    return losses;
}

TimePoint UnacknowledgedPackets::next_deadline() const {
    return size_ == 0 ? kNever : deadline_of(oldest_);
}

bool Acknowledgements::add(std::uint64_t number, TimePoint now) {
    numbers_[stated_ + count_++] = number;
    deadline_ = count_ == kPerPacket ? now : std::min(deadline_, now + kAcknowledgementDelay);
    return count_ == kPerPacket;
}

PacketRef Acknowledgements::take(PacketPool& pool) {
    const std::span<const std::uint64_t> stated(numbers_.data(), stated_ + count_);
    PacketRef packet = pool.allocate(wire::acknowledgement_size(stated.size()));
    if (packet) wire::encode_acknowledgement(stated, packet.writable());
    std::copy_n(numbers_.begin() + static_cast<std::ptrdiff_t>(stated_), count_, numbers_.begin());
    stated_ = std::exchange(count_, 0);
    deadline_ = kNever;
    return packet;
}

void LinkReliability::add_face(FaceId face) {
    while (links_.size() <= face) {
        links_.emplace_back();
        deadlines_.add();
    }
    links_[face].reset();
    deadlines_.set(face, kNever);
}

LinkReliability::Link& LinkReliability::link_at(FaceId face) {
    if (!links_[face]) links_[face] = std::make_unique<Link>();
    return *links_[face];
}

std::size_t LinkReliability::on_sent(FaceId face, const OutgoingPacket& packet, TimePoint now) {
    const std::size_t given_up = link_at(face).unacknowledged.add(packet, now);
    schedule(face);
    return given_up;
}

bool LinkReliability::on_received(FaceId face, std::uint64_t number, TimePoint now) {
    const bool is_full = link_at(face).acknowledgements.add(number, now);
    schedule(face);
    return is_full;
}

void LinkReliability::on_acknowledged(FaceId face, const wire::LpView& link, TimePoint now) {
    if (!links_[face]) return;
    UnacknowledgedPackets& unacknowledged = links_[face]->unacknowledged;
    link.for_each_ack([&](std::uint64_t number) { unacknowledged.on_acknowledged(number, now); });
    schedule(face);
}

FaceId LinkReliability::due_face(TimePoint now) const {
    return deadlines_.earliest() <= now ? static_cast<FaceId>(deadlines_.first()) : kNoFace;
}

UnacknowledgedPackets::Losses LinkReliability::take_due(FaceId face, TimePoint now,
                                                        std::vector<OutgoingPacket>& into) {
    Link& link = *links_[face];
    const auto losses = link.unacknowledged.take_lost(now, into);
    if (link.acknowledgements.deadline() <= now) {
        if (PacketRef packet = link.acknowledgements.take(pool_)) {
            into.emplace_back().payload = std::move(packet);
        }
    }
    schedule(face);
    return losses;
}

void LinkReliability::schedule(FaceId face) {
    const Link& link = *links_[face];
    deadlines_.set(face,
                   std::min(link.unacknowledged.next_deadline(), link.acknowledgements.deadline()));
}

}  // namespace innet::forwarding
