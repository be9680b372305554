#pragma once
// ControlParameters: what a command is about, and what it has done (NFD management protocol,
// "ControlCommand").

#include <cstdint>
#include <optional>
#include <string>

#include "switch_emulator/management/message.hpp"
#include "transport/wire/name.hpp"

namespace innet::management {

/// Fields of ControlParameters, for rules about which a command needs.
enum Field : std::uint32_t {
    kNameField = 1U << 0,
    kFaceIdField = 1U << 1,
    kUriField = 1U << 2,
    kLocalUriField = 1U << 3,
    kOriginField = 1U << 4,
    kCostField = 1U << 5,
    kCapacityField = 1U << 6,
    kCountField = 1U << 7,
    kMarkingIntervalField = 1U << 8,
    kCongestionThresholdField = 1U << 9,
    kMtuField = 1U << 10,
    kFlagsField = 1U << 11,
    kMaskField = 1U << 12,
    kStrategyField = 1U << 13,
    kExpirationField = 1U << 14,
    kPersistencyField = 1U << 15,
};
using FieldSet = std::uint32_t;

struct ControlParameters {
    std::optional<wire::Name> name;
    std::optional<std::uint64_t> face_id;
    std::optional<std::string> uri;
    std::optional<std::string> local_uri;
    std::optional<std::uint64_t> origin;
    std::optional<std::uint64_t> cost;
    std::optional<std::uint64_t> capacity;
    std::optional<std::uint64_t> count;
    std::optional<std::uint64_t> base_congestion_marking_interval_ns;
    std::optional<std::uint64_t> default_congestion_threshold_bytes;
    std::optional<std::uint64_t> mtu;
    std::optional<std::uint64_t> flags;
    std::optional<std::uint64_t> mask;
    std::optional<wire::Name> strategy;
    std::optional<std::uint64_t> expiration_period_ms;
    std::optional<std::uint64_t> persistency;

    /// From the whole element; nothing when it is malformed. Fields that are unknown are skipped,
    /// as NFD does.
    static std::optional<ControlParameters> parse(wire::ByteView element);

    /// Appends the whole element, its fields in the order in which NFD's clients expect them.
    void write_to(Message& message) const;
    FieldSet present() const;
};

}  // namespace innet::management
