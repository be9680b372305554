#include "switch_emulator/management/module.hpp"

#include <array>
#include <limits>
#include <utility>

#include "switch_emulator/tables/name_prefixes.hpp"

namespace innet::management {

namespace {

constexpr std::array<std::pair<Field, std::string_view>, 16> kFieldNames{{
    {kNameField, "Name"},
    {kFaceIdField, "FaceId"},
    {kUriField, "Uri"},
    {kLocalUriField, "LocalUri"},
    {kOriginField, "Origin"},
    {kCostField, "Cost"},
    {kCapacityField, "Capacity"},
    {kCountField, "Count"},
    {kMarkingIntervalField, "BaseCongestionMarkingInterval"},
    {kCongestionThresholdField, "DefaultCongestionThreshold"},
    {kMtuField, "Mtu"},
    {kFlagsField, "Flags"},
    {kMaskField, "Mask"},
    {kStrategyField, "Strategy"},
    {kExpirationField, "ExpirationPeriod"},
    {kPersistencyField, "FacePersistency"},
}};

std::string first_of(FieldSet fields) {
    for (const auto& [field, name] : kFieldNames) {
        if ((fields & field) != 0) return std::string(name);
    }
    return {};
}

}  // namespace

bool is_too_long(const wire::Name& prefix) {
    constexpr std::size_t kMaxPrefixBytes = 1024;
    return prefix.view().size() > tables::NamePrefixes::kMaxPrefixComponents ||
           prefix.view().value().size() > kMaxPrefixBytes;
}

std::optional<ControlResponse> refusal_of_next_hop(const ControlParameters& parameters,
                                                   std::optional<FaceId> face) {
    if (is_too_long(*parameters.name)) {
        return ControlResponse{kNameTooLong, std::string(kTooLong), parameters};
    }
    if (*parameters.cost > std::numeric_limits<std::uint32_t>::max()) {
        return ControlResponse{kBadRequest, "Cost is above 4294967295", parameters};
    }
    if (!face) return ControlResponse{kGone, "there is no such face", parameters};
    return std::nullopt;
}

std::string violation(const ControlParameters& parameters, const CommandRule& rule) {
    const FieldSet present = parameters.present();
    const FieldSet missing = rule.required & ~present;
    if (missing != 0) return first_of(missing) + " is missing";
    const FieldSet alien = present & ~(rule.required | rule.optional);
    if (alien != 0) return first_of(alien) + " is not for this command";
    const FieldSet masked = kFlagsField | kMaskField;
    if ((rule.optional & masked) == masked &&
        parameters.flags.has_value() != parameters.mask.has_value()) {
        return "Flags and Mask go together";
    }
    return {};
}

}  // namespace innet::management
