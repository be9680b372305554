#include "switch_emulator/management/status_module.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "transport/version.hpp"

namespace innet::management {

namespace {

constexpr std::uint32_t kNfdVersion = 0x80;

std::size_t fib_entries(const forwarding::Node& node) {
    std::set<wire::Name> prefixes;
    for (const forwarding::Route& route : node.routes()) prefixes.insert(route.prefix);
    return prefixes.size();
}

}  // namespace

void StatusModule::Totals::add(const forwarding::FaceCounters& counters) {
    interests_in += counters.interests_in;
    data_in += counters.data_in;
    nacks_in += counters.nacks_in;
    interests_out += counters.interests_out;
    data_out += counters.data_out;
    nacks_out += counters.nacks_out;
}

Module::DatasetKind StatusModule::dataset_kind(std::string_view verb) const {
    return verb == "general" ? DatasetKind::kWhole : DatasetKind::kNone;
}

std::uint64_t StatusModule::wall_time_ms(TimePoint now) const {
    const auto since_zero =
        std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
    return static_cast<std::uint64_t>(
        std::max<std::int64_t>(0, wall_time_at_zero_ms_ + since_zero));
}

void StatusModule::on_face_closed(FaceId face) { closed_.add(node_.face_counters(face)); }

std::optional<Bytes> StatusModule::dataset(std::string_view, wire::ByteView, TimePoint now) const {
    Totals totals = closed_;
    for (std::size_t face = 0; face < node_.faces(); ++face) {
        const auto number = static_cast<FaceId>(face);
        if (node_.is_open(number)) totals.add(node_.face_counters(number));
    }
    const forwarding::NodeCounters& counters = node_.counters();
    Message status;
    status.text(kNfdVersion, "innet " + std::string(version()));
    // There are no name tree and no measurements in NFD's sense: their places say 0.
    const std::array<std::pair<std::uint32_t, std::uint64_t>, 15> numbers{{
        {0x81, started_ms_},
        {0x82, wall_time_ms(now)},
        {0x83, 0},
        {0x84, fib_entries(node_)},
        {0x85, counters.pit_entries},
        {0x86, 0},
        {0x87, counters.cache_entries},
        {0x90, totals.interests_in},
        {0x91, totals.data_in},
        {0x97, totals.nacks_in},
        {0x92, totals.interests_out},
        {0x93, totals.data_out},
        {0x98, totals.nacks_out},
        {0x99, counters.pit_satisfied},
        {0x9a, counters.pit_expired},
    }};
    for (const auto& [type, number] : numbers) status.number(type, number);
    return status.take();
}

}  // namespace innet::management
