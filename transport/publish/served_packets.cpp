#include "transport/publish/served_packets.hpp"

#include <algorithm>
#include <utility>

#include "transport/wire/data.hpp"

namespace innet {

bool ServedPackets::assign(std::vector<PacketRef> packets) {
    std::vector<Served> served;
    std::vector<wire::NameView> heads;
    for (PacketRef& packet : packets) {
        const auto data = wire::DataView::parse(packet.bytes());
        if (!data) return false;
        const wire::NameView name = data->name();
        const wire::NameView head = name.prefix(1);
        if (std::ranges::find(heads, head) == heads.end()) heads.push_back(head);
        served.push_back({name, std::move(packet)});
    }
    served_ = std::move(served);
    heads_ = std::move(heads);
    return true;
}

PacketRef ServedPackets::find(const wire::InterestView& interest) const {
    const wire::NameView requested = interest.name();
    const auto is_head = [&](wire::NameView head) { return head.is_prefix_of(requested); };
    if (std::ranges::none_of(heads_, is_head)) return {};
    const auto found = std::ranges::find_if(served_, [&](const Served& candidate) {
        return interest.can_be_prefix() ? requested.is_prefix_of(candidate.name)
                                        : requested == candidate.name;
    });
    return found == served_.end() ? PacketRef() : found->packet;
}

}  // namespace innet
