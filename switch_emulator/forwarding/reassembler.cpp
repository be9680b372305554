#include "switch_emulator/forwarding/reassembler.hpp"

#include <algorithm>

namespace innet::forwarding {

namespace {

/// What the link headers of one packet take at most.
constexpr std::size_t kMaxHeaderBytes = 96;

}  // namespace

Reassembler::Outcome Reassembler::add(FaceId face, const PacketRef& fragment,
                                      const wire::LpView& view, std::size_t max_packet_bytes,
                                      TimePoint now, PacketRef& whole) {
    on_timer(now);
    const wire::FragmentInfo info = *view.fragment();
    if (info.count > kMaxFragments || info.index >= info.count) return Outcome::kRefused;
    const auto packet = find_or_begin(face, info, now);
    if (packet->fragments.size() != info.count) return Outcome::kRefused;
    PacketRef& place = packet->fragments[static_cast<std::size_t>(info.index)];
    if (place) return Outcome::kWaiting;
    packet->payload_bytes += view.payload().size();
    packet->kept_bytes += fragment.size();
    // Their own headers are kept with them.
    max_packet_bytes = std::min(max_packet_bytes, kMaxPacketBytes - kMaxHeaderBytes);
    if (packet->payload_bytes > max_packet_bytes || packet->kept_bytes > 2 * max_packet_bytes) {
        packets_.erase(packet);
        return Outcome::kRefused;
    }
    place = pool_.copy_of(fragment.bytes());
    if (--packet->missing != 0) return Outcome::kWaiting;
    whole = join(*packet);
    packets_.erase(packet);
    return whole ? Outcome::kComplete : Outcome::kRefused;
}

Reassembler::Packets::iterator Reassembler::find_or_begin(FaceId face,
                                                          const wire::FragmentInfo& info,
                                                          TimePoint now) {
    const std::uint64_t first = info.sequence - info.index;
    const auto known = std::ranges::find_if(packets_, [&](const Packet& packet) {
        return packet.face == face && packet.first_sequence == first;
    });
    if (known != packets_.end()) return known;
    make_room(face);
    Packet& begun = packets_.emplace_back();
    begun.face = face;
    begun.first_sequence = first;
    begun.fragments.resize(static_cast<std::size_t>(info.count));
    begun.missing = begun.fragments.size();
    begun.begun = now;
    return packets_.end() - 1;
}

// A flood of fragments on one face displaces its own.
void Reassembler::make_room(FaceId face) {
    const auto own = static_cast<std::size_t>(std::ranges::count(packets_, face, &Packet::face));
    const bool is_full = packets_.size() >= kMaxPackets;
    if (own < kMaxPacketsPerFace && !is_full) return;
    packets_.erase(own == 0 ? packets_.begin() : std::ranges::find(packets_, face, &Packet::face));
    ++given_up_;
}

PacketRef Reassembler::join(const Packet& packet) {
    const auto first = wire::LpView::parse(packet.fragments.front().bytes());
    wire::LpFields fields = first->fields();
    fields.fragment.reset();
    PacketRef whole = pool_.allocate(kMaxHeaderBytes + packet.payload_bytes);
    const std::span<std::uint8_t> room = whole.writable();
    const std::size_t header =
        wire::encode_lp_header(fields, packet.payload_bytes, room.first(kMaxHeaderBytes));
    if (header == 0) return {};
    auto end = room.begin() + static_cast<std::ptrdiff_t>(header);
    for (const PacketRef& fragment : packet.fragments) {
        end = std::ranges::copy(wire::LpView::parse(fragment.bytes())->payload(), end).out;
    }
    whole.truncate(header + packet.payload_bytes);
    return whole;
}

void Reassembler::forget(FaceId face) {
    std::erase_if(packets_, [&](const Packet& packet) { return packet.face == face; });
}

void Reassembler::on_timer(TimePoint now) {
    const auto in_time = std::ranges::find_if(
        packets_, [&](const Packet& packet) { return now - packet.begun < kTimeout; });
    given_up_ += static_cast<std::uint64_t>(in_time - packets_.begin());
    packets_.erase(packets_.begin(), in_time);
}

}  // namespace innet::forwarding
