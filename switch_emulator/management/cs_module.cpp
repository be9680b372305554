#include "switch_emulator/management/cs_module.hpp"

#include <algorithm>
#include <array>

namespace innet::management {

namespace {

constexpr std::uint32_t kCsInfo = 0x80;
constexpr std::uint32_t kHits = 0x81;
constexpr std::uint32_t kMisses = 0x82;
constexpr std::uint32_t kEntries = 0x87;

// CsFlags.
constexpr std::uint64_t kEnableAdmit = 1;
constexpr std::uint64_t kEnableServe = 2;
constexpr std::uint64_t kKnownFlags = kEnableAdmit | kEnableServe;

/// No single command keeps the node from its packets for long.
constexpr std::size_t kMaxErased = 4096;
constexpr std::size_t kMaxCapacityBytes = std::size_t{1} << 40;

constexpr std::array<CommandRule, 2> kCommands{{
    {"config", 0, kCapacityField | kFlagsField | kMaskField},
    {"erase", kNameField, kCountField},
}};

std::uint64_t flags_of(const forwarding::CacheSettings& settings) {
    return (settings.admits ? kEnableAdmit : 0) | (settings.serves ? kEnableServe : 0);
}

}  // namespace

std::span<const CommandRule> CsModule::commands() const { return kCommands; }

std::optional<ControlResponse> CsModule::run(std::string_view verb,
                                             const ControlParameters& parameters,
                                             const CommandContext&) {
    return verb == "config" ? std::optional(configure(parameters)) : erase(parameters);
}

ControlResponse CsModule::configure(const ControlParameters& parameters) {
    const std::uint64_t mask = parameters.mask.value_or(0);
    if ((mask & ~kKnownFlags) != 0) return {kBadRequest, "unknown flags", parameters};
    forwarding::CacheSettings settings = node_.cache_settings();
    if (parameters.capacity) {
        if (*parameters.capacity > kMaxCapacityBytes / kBytesPerCapacity) {
            return {kBadRequest, "Capacity is above 1 TiB", parameters};
        }
        settings.capacity_bytes = *parameters.capacity * kBytesPerCapacity;
    }
    const std::uint64_t flags =
        (flags_of(settings) & ~mask) | (parameters.flags.value_or(0) & mask);
    settings.admits = (flags & kEnableAdmit) != 0;
    settings.serves = (flags & kEnableServe) != 0;
    node_.configure_cache(settings);
    ControlParameters body;
    body.capacity = settings.capacity_bytes / kBytesPerCapacity;
    body.flags = flags;
    return {kOk, "OK", body};
}

ControlResponse CsModule::erase(ControlParameters parameters) {
    if (parameters.count == 0U) return {kBadRequest, "Count is 0", parameters};
    const auto limit = static_cast<std::size_t>(
        std::min<std::uint64_t>(parameters.count.value_or(kMaxErased), kMaxErased));
    const bool is_cut = parameters.count.value_or(kMaxErased + 1) > limit;
    const std::size_t erased = node_.erase_cache(parameters.name->view(), limit);
    parameters.count = erased;
    // Tells the client that more entries may remain: it repeats the command.
    if (is_cut && erased == limit) parameters.capacity = kMaxErased;
    return {kOk, "OK", parameters};
}

Module::DatasetKind CsModule::dataset_kind(std::string_view verb) const {
    return verb == "info" ? DatasetKind::kWhole : DatasetKind::kNone;
}

std::optional<Bytes> CsModule::dataset(std::string_view, wire::ByteView, TimePoint) const {
    const forwarding::CacheSettings& settings = node_.cache_settings();
    const forwarding::NodeCounters& counters = node_.counters();
    Message info;
    info.number(kCapacity, settings.capacity_bytes / kBytesPerCapacity);
    info.number(kFlags, flags_of(settings));
    info.number(kEntries, counters.cache_entries);
    info.number(kHits, counters.cache_hits);
    info.number(kMisses, counters.cache_misses);
    Message dataset;
    dataset.nested(kCsInfo, info);
    return dataset.take();
}

}  // namespace innet::management
