#include "switch_emulator/management/fib_module.hpp"

#include <array>
#include <map>

#include "switch_emulator/management/face_ids.hpp"

namespace innet::management {

namespace {

constexpr std::uint32_t kFibEntry = 0x80;
constexpr std::uint32_t kNextHopRecord = 0x81;

constexpr std::array<CommandRule, 2> kCommands{{
    {"add-nexthop", kNameField, kFaceIdField | kCostField},
    {"remove-nexthop", kNameField, kFaceIdField},
}};

}  // namespace

std::span<const CommandRule> FibModule::commands() const { return kCommands; }

std::optional<ControlResponse> FibModule::run(std::string_view verb,
                                              const ControlParameters& parameters,
                                              const CommandContext& context) {
    return verb == "add-nexthop" ? add_next_hop(parameters, context)
                                 : remove_next_hop(parameters, context);
}

ControlResponse FibModule::add_next_hop(ControlParameters parameters,
                                        const CommandContext& context) {
    const auto face = open_face(node_, parameters.face_id, context.from);
    parameters.face_id = meant_face_id(node_, parameters.face_id, context.from);
    parameters.cost = parameters.cost.value_or(0);
    if (const auto refusal = refusal_of_next_hop(parameters, face)) return *refusal;
    if (node_.route_count() >= max_next_hops_ && !node_.has_route(*parameters.name, *face)) {
        return {kFull, "this node has too many next hops", parameters};
    }
    node_.add_route(*parameters.name, *face, static_cast<std::uint32_t>(*parameters.cost));
    return {kOk, "Success", parameters};
}

ControlResponse FibModule::remove_next_hop(ControlParameters parameters,
                                           const CommandContext& context) {
    const auto face = open_face(node_, parameters.face_id, context.from);
    parameters.face_id = meant_face_id(node_, parameters.face_id, context.from);
    if (face) node_.remove_route(*parameters.name, *face);
    return {kOk, "Success", parameters};
}

Module::DatasetKind FibModule::dataset_kind(std::string_view verb) const {
    return verb == "list" ? DatasetKind::kWhole : DatasetKind::kNone;
}

std::optional<Bytes> FibModule::dataset(std::string_view, wire::ByteView, TimePoint) const {
    std::map<wire::Name, Message> entries;
    for (const forwarding::Route& route : node_.routes()) {
        Message record;
        record.number(kFaceId, shown_face_id(node_, route.face));
        record.number(kCost, route.cost);
        const auto [entry, is_new] = entries.try_emplace(route.prefix);
        if (is_new) entry->second.name(route.prefix.view());
        entry->second.nested(kNextHopRecord, record);
    }
    Message dataset;
    for (const auto& [prefix, entry] : entries) dataset.nested(kFibEntry, entry);
    return dataset.take();
}

}  // namespace innet::management
