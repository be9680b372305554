#include "switch_emulator/management/control_parameters.hpp"

#include <array>

namespace innet::management {

namespace {

using Number = std::optional<std::uint64_t> ControlParameters::*;
using Text = std::optional<std::string> ControlParameters::*;

template <typename Member>
struct FieldPlace {
    std::uint32_t type;
    FieldSet field;
    Member member;
};

// In the order in which they are written; texts stand after FaceId, the strategy after Mask.
constexpr std::array<FieldPlace<Number>, 9> kNumbersBeforeStrategy{{
    {kOrigin, kOriginField, &ControlParameters::origin},
    {kCost, kCostField, &ControlParameters::cost},
    {kCapacity, kCapacityField, &ControlParameters::capacity},
    {kCount, kCountField, &ControlParameters::count},
    {kBaseCongestionMarkingInterval, kMarkingIntervalField,
     &ControlParameters::base_congestion_marking_interval_ns},
    {kDefaultCongestionThreshold, kCongestionThresholdField,
     &ControlParameters::default_congestion_threshold_bytes},
    {kMtu, kMtuField, &ControlParameters::mtu},
    {kFlags, kFlagsField, &ControlParameters::flags},
    {kMask, kMaskField, &ControlParameters::mask},
}};
constexpr std::array<FieldPlace<Number>, 2> kNumbersAfterStrategy{{
    {kExpirationPeriod, kExpirationField, &ControlParameters::expiration_period_ms},
    {kFacePersistency, kPersistencyField, &ControlParameters::persistency},
}};
constexpr std::array<FieldPlace<Number>, 1> kFaceIdPlace{
    {{kFaceId, kFaceIdField, &ControlParameters::face_id}}};
constexpr std::array<FieldPlace<Text>, 2> kTexts{{
    {kUri, kUriField, &ControlParameters::uri},
    {kLocalUri, kLocalUriField, &ControlParameters::local_uri},
}};

bool read_name(wire::ByteView value, std::optional<wire::Name>& into) {
    const auto name = wire::NameView::parse(value);
    if (name) into.emplace(*name);
    return name.has_value();
}

/// The Strategy element holds a Name.
bool read_strategy(wire::ByteView value, std::optional<wire::Name>& into) {
    const auto name = wire::read_only_element(value);
    return name && name->type == wire::kName && read_name(name->value, into);
}

/// Whether the element is one of these, and if so, whether it is well-formed.
std::optional<bool> read_number(const auto& places, const wire::Element& element,
                                ControlParameters& parameters) {
    for (const auto& place : places) {
        if (place.type != element.type) continue;
        const auto number = wire::read_nonnegative(element.value);
        parameters.*place.member = number;
        return number.has_value();
    }
    return std::nullopt;
}

bool read_field(const wire::Element& element, ControlParameters& parameters) {
    if (element.type == wire::kName) return read_name(element.value, parameters.name);
    if (element.type == kStrategy) return read_strategy(element.value, parameters.strategy);
    for (const auto& place : kTexts) {
        if (place.type != element.type) continue;
        (parameters.*place.member).emplace(element.value.begin(), element.value.end());
        return true;
    }
    if (const auto read = read_number(kFaceIdPlace, element, parameters)) return *read;
    if (const auto read = read_number(kNumbersBeforeStrategy, element, parameters)) return *read;
    return read_number(kNumbersAfterStrategy, element, parameters).value_or(true);
}

void write_numbers(const auto& places, const ControlParameters& parameters, Message& message) {
    for (const auto& place : places) {
        if (const auto& number = parameters.*place.member) message.number(place.type, *number);
    }
}

FieldSet present_of(const auto& places, const ControlParameters& parameters) {
    FieldSet fields = 0;
    for (const auto& place : places) {
        if (parameters.*place.member) fields |= place.field;
    }
    return fields;
}

}  // namespace

std::optional<ControlParameters> ControlParameters::parse(wire::ByteView element) {
    const auto whole = wire::read_only_element(element);
    if (!whole || whole->type != kControlParameters) return std::nullopt;
    ControlParameters parameters;
    for (wire::Reader reader(whole->value); !reader.empty();) {
        const auto field = reader.next();
        if (!field || !read_field(*field, parameters)) return std::nullopt;
    }
    return parameters;
}

void ControlParameters::write_to(Message& message) const {
    Message fields;
    if (name) fields.name(name->view());
    write_numbers(kFaceIdPlace, *this, fields);
    for (const auto& place : kTexts) {
        if (const auto& value = this->*place.member) fields.text(place.type, *value);
    }
    write_numbers(kNumbersBeforeStrategy, *this, fields);
    if (strategy) {
        Message nested;
        nested.name(strategy->view());
        fields.nested(kStrategy, nested);
    }
    write_numbers(kNumbersAfterStrategy, *this, fields);
    message.nested(kControlParameters, fields);
}

FieldSet ControlParameters::present() const {
    FieldSet fields = present_of(kFaceIdPlace, *this) | present_of(kTexts, *this) |
                      present_of(kNumbersBeforeStrategy, *this) |
                      present_of(kNumbersAfterStrategy, *this);
    if (name) fields |= kNameField;
    if (strategy) fields |= kStrategyField;
    return fields;
}

}  // namespace innet::management
