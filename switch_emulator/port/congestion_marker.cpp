#include "switch_emulator/port/congestion_marker.hpp"

#include <cmath>

#include "transport/wire/lp.hpp"

namespace innet::port {

// Data alone carries a congestion mark to its requester; a Nack or a Hold is no answer that could
// slow anyone.
bool mark_data(OutgoingPacket& packet, std::size_t max_bytes) {
    const auto payload = packet.payload.bytes();
    if (payload.empty() || payload.front() != wire::kData) return false;
    wire::LpFields fields;
    if (packet.header_size > 0) {
        const auto link = wire::LpView::parse_header(packet.header_bytes());
        if (!link || link->congestion_mark() != 0) return false;
        fields = link->fields();
    }
    fields.congestion_mark = 1;
    decltype(packet.header) header{};
    const std::size_t size = wire::encode_lp_header(fields, payload.size(), header);
    if (packet.size() - packet.header_size + size > max_bytes) return false;
    packet.header = header;
    packet.header_size = static_cast<std::uint8_t>(size);
    return true;
}

void CongestionMarker::on_enqueue(OutgoingPacket& packet, std::size_t queued_bytes,
                                  std::size_t max_bytes, TimePoint now) {
    if (!options_.enabled || queued_bytes <= options_.threshold_bytes) {
        next_mark_ = kNever;
        marked_since_above_ = 0;
        return;
    }
    if (next_mark_ == kNever) next_mark_ = now + options_.base_interval;
    // A slow start doubles the queue in less than an interval; its bound cuts what is beyond.
    const bool is_burst = queued_bytes / kBurstThresholds <= options_.threshold_bytes;
    if (marked_since_above_ == 0 && !is_burst) next_mark_ = now;
    if (now < next_mark_ || !mark_data(packet, max_bytes)) return;
    ++marked_;
    ++marked_since_above_;
    const double interval = static_cast<double>(options_.base_interval.count()) /
                            std::sqrt(static_cast<double>(marked_since_above_ + 1));
    next_mark_ += Duration(static_cast<Duration::rep>(interval));
}

}  // namespace innet::port
