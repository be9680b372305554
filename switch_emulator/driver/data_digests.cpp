#include "switch_emulator/driver/data_digests.hpp"

#include "transport/wire/lp.hpp"

namespace innet::driver {

namespace {

/// Data below this is not worth a second thread.
constexpr std::size_t kLargeDataBytes = 8192;

/// The Data in a packet, if there is one and it is large.
wire::ByteView large_data_in(const PacketRef& packet) {
    if (packet.size() < kLargeDataBytes) return {};
    const auto link = wire::LpView::parse(packet.bytes());
    const bool has_data = link && !link->payload().empty() && link->payload()[0] == wire::kData;
    return has_data ? link->payload() : wire::ByteView();
}

bool needs_digest(wire::ByteView packet, const forwarding::Node& node) {
    const auto data = wire::DataView::parse(packet);
    return data && node.needs_digest_of(data->name());
}

}  // namespace

void DataDigests::compute(std::span<const PacketRef> packets, const forwarding::Node& node) {
    digests_.assign(packets.size(), nullptr);
    if (packets.size() < 2 || !node.awaits_digests()) return;
    jobs_.clear();
    jobs_.reserve(packets.size());  // what points into it stays where it is
    for (std::size_t i = 0; i < packets.size(); ++i) {
        const wire::ByteView data = large_data_in(packets[i]);
        if (data.empty() || !needs_digest(data, node)) continue;
        digests_[i] = &jobs_.emplace_back(security::HashJob{{data}}).digest;
    }
    hasher_.digest(jobs_);
}

}  // namespace innet::driver
